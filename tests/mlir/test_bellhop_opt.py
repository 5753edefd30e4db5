"""bellhop-opt: its arguments, its output and its exit status."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from bellhop_mlir import opt
from bellhop_mlir.parser_limits import verify_text
from bellhop_mlir.pipelines import PASSES, PIPELINE

CALL = """
func.func public @main(%x: tensor<f64>) -> tensor<f64> {
  %y = func.call @accelerate_cuda_3__expm(%x) : (tensor<f64>) -> tensor<f64>
  return %y : tensor<f64>
}
func.func private @accelerate_cuda_3__expm(%x: tensor<f64>) -> tensor<f64> {
  return %x : tensor<f64>
}
"""


def run(*arguments: str, text: str = CALL) -> tuple[int, str, str]:
    output, diagnostics = io.StringIO(), io.StringIO()
    status = opt.run_tool(arguments, io.StringIO(text), output, diagnostics)
    return status, output.getvalue(), diagnostics.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "program.mlir"
    path.write_text(CALL)
    return path


def test_file_is_read(file: Path) -> None:
    status, output, diagnostics = run("--pass=outline-regions", str(file), text="")
    assert (status, diagnostics) == (0, "")
    assert '"callback.accelerate"(%arg0) {callee = @accelerate_cuda_3__expm' in output


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_is_read_without_a_file(arguments: tuple[str, ...]) -> None:
    status, output, _ = run("--pass=outline-regions", *arguments)
    assert status == 0
    assert "callback.accelerate" in output


def test_passes_run_in_the_order_given() -> None:
    status, output, _ = run("--pass=outline-regions", "--pass=inline-accelerate{device=cuda:3}")
    assert status == 0
    assert "callback.accelerate" not in output
    assert "return %arg0" in output
    status, output, _ = run("--pass=inline-accelerate{device=cuda:3}", "--pass=outline-regions")
    assert status == 0
    assert "callback.accelerate" in output


def test_whole_pipeline_runs_without_passes() -> None:
    status, output, _ = run()
    assert status == 0
    assert "stablehlo.custom_call @bellhop_callback" in output
    assert '"callback.' not in output


def test_verify_only_runs_no_pass() -> None:
    status, output, _ = run("--verify-only")
    assert status == 0
    assert "call @accelerate_cuda_3__expm" in output
    assert "callback.accelerate" not in output


def test_number_and_text_options_reach_the_pass() -> None:
    assert opt.parse_pass("convert-callback-to-runtime{program=7}").program == 7
    assert opt.parse_pass("inline-accelerate{device=cuda:3}").device == "cuda:3"
    assert opt.parse_pass("inline-accelerate").device == "cpu:0"


def test_list_names_every_pass_with_a_summary() -> None:
    status, output, _ = run("--list")
    lines = output.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines] == list(PASSES)
    assert {cls.name for cls in PIPELINE} < set(PASSES)
    assert all(len(line.split()) > 3 for line in lines)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hoist", "no pass is named 'hoist'; there are order-effects, outline-regions, "),
        ("order-effects{", "'order-effects{' does not name a pass as NAME"),
        (
            "inline-accelerate{speed=1}",
            "the pass inline-accelerate has no option 'speed'; there are: device",
        ),
        ("order-effects{speed=1}", "the pass order-effects has no option 'speed'; there are: none"),
        (
            "convert-callback-to-runtime{program=seven}",
            "the pass convert-callback-to-runtime got the option 'program=seven', expected "
            "program=a number",
        ),
        (
            "inline-accelerate{device}",
            "the pass inline-accelerate got the option 'device', expected device=text",
        ),
    ],
)
def test_wrong_pass_is_refused(text: str, message: str) -> None:
    status, output, diagnostics = run(f"--pass={text}")
    assert (status, output) == (1, "")
    assert f"bellhop-opt: {message}" in diagnostics


def test_malformed_module_is_refused_with_its_place() -> None:
    status, output, diagnostics = run(text="\nfunc.func @f(%x tensor<f64>)")
    assert (status, output) == (1, "")
    assert 'bellhop-opt: Unable to parse module assembly:\nerror: "-":2:16' in diagnostics


def test_missing_file_is_refused(tmp_path: Path) -> None:
    status, output, diagnostics = run(str(tmp_path / "none.mlir"))
    assert (status, output) == (1, "")
    assert "No such file" in diagnostics


def test_unknown_argument_exits_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        opt.main(["--speed"])
    assert exit_.value.code == 2
    assert "usage: bellhop-opt" in capsys.readouterr().err


def test_main_uses_the_streams_of_the_process(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opt.main(["--pass=outline-regions", str(file)]) == 0
    assert "callback.accelerate" in capsys.readouterr().out
    assert opt.main(["--pass=hoist", str(file)]) == 1
    assert "no pass is named 'hoist'" in capsys.readouterr().err


@pytest.mark.subprocess
def test_tool_runs_as_a_process() -> None:
    command = [sys.executable, "-m", "bellhop_mlir.opt", "--pass=outline-regions"]
    done = subprocess.run(command, input=CALL, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "callback.accelerate" in done.stdout
    done = subprocess.run(
        command, input="module {", capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert done.stderr.startswith("bellhop-opt: Unable to parse module assembly")


def test_an_alias_may_be_used_often():
    uses = ", ".join(f"a{i} = #map" for i in range(500))
    text = f"#map = affine_map<(d0) -> (d0)>\nmodule attributes {{test.all = {{{uses}}}}} {{}}"
    verify_text(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[" * 20_000, "nested deeper than 400"),
        ("module attributes {a = " + "[" * 500 + "]" * 500 + "} {}", "nested deeper than 400"),
        (
            "#a0 = [1]\n" + "".join(f"#a{i + 1} = [#a{i}]\n" for i in range(20_000)) + "module {}",
            "nested deeper than 400",
        ),
        (
            f"module attributes {{a = {'9' * 100_000} : i64}} {{}}",
            "the module has a number of more than 80 digits",
        ),
        (
            f"func.func @f(%x: tensor<{'9' * 100_000}xf64>) {{ return }}",
            "the module has a number of more than 80 digits",
        ),
        (
            f"module attributes {{a = 0x{'f' * 100_000} : i64}} {{}}",
            "the module has a number of more than 80 digits",
        ),
    ],
    ids=["brackets", "attributes", "names", "number", "shape", "hexadecimal"],
)
def test_text_that_would_end_the_parser_is_refused(text: str, what: str) -> None:
    status, output, diagnostics = run("--verify-only", text=text)
    assert (status, output) == (1, "")
    assert what in diagnostics


def test_names_of_attributes_long_strings_and_locations_are_read() -> None:
    text = (
        '#loc = loc("a.py":1:2)\n#loc1 = loc(callsite(#loc at #loc))\n!t = tensor<1xf64>\n'
        f'module attributes {{a.b = "{"1" * 1000}", a.c = dense<1.0> : !t}} {{}} loc(#loc1)'
    )
    assert run("--verify-only", text=text)[0] == 0
