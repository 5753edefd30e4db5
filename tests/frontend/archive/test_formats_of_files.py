"""Format strings of files show values and lead nowhere else."""

import json

import pytest
from repacked_files import members_of, repack

import bellhop
from bellhop.archive.format_strings import verify_format


@pytest.mark.parametrize(
    "fmt",
    [
        *("{}", "{0} {1}", "{x:.3f}", "{x!r:>20}", "{x.shape} {x.dtype} {x.T[0].real}", "{{}}"),
        *("{x[0]} {x[a]}", "{x:{n}d}", "plain", "{x.ndim}{x.size}{x.imag}", "{x:%H}"),
    ],
)
def test_what_shows_values_is_taken(fmt):
    verify_format(fmt)


@pytest.mark.parametrize(
    ("fmt", "message"),
    [
        ("{x.ctypes.__init__.__globals__}", "uses the attribute 'ctypes'"),
        ("{x.shape.__class__}", "uses the attribute '__class__'"),
        ("{x[0].base}", "uses the attribute 'base'"),
        ("{x:{y.__class__}}", "uses the attribute '__class__'"),
        ("{x:{y:{z.data}}}", "more than two levels of nested fields"),
        ("{.__class__}", "uses the attribute '__class__'"),
        ("{x.real.__array__}", "the attribute '__array__'"),
        ("{x:1000000000}", "a width or precision of more than four digits"),
        ("{x", "expected '}' before end of string"),
    ],
)
def test_what_leads_elsewhere_is_refused(fmt, message):
    with pytest.raises(ValueError, match=message):
        verify_format(fmt)


def test_a_file_with_such_a_format(tmp_path, capsys):
    path = tmp_path / "function.bellhop"
    f = bellhop.qjit(lambda x: bellhop.debug.print("x = {x.shape}", x=x))
    f(1.0)
    f.save(path)
    bellhop.load(path)(2.0)
    assert capsys.readouterr().out == "x = ()\n" * 2
    members = members_of(path)
    metadata = json.loads(members["metadata.json"])
    metadata["programs"][0]["targets"][0]["function"]["arguments"] = ["{x.flags}"]
    repack(path, members | {"metadata.json": json.dumps(metadata).encode()})
    with pytest.raises(bellhop.CompileError, match="uses the attribute 'flags'"):
        bellhop.load(path)
    assert "C_CONTIGUOUS" in str(bellhop.load(path, trust=True)(2.0)) + capsys.readouterr().out


def test_save_names_what_load_does_not_take(tmp_path):
    f = bellhop.qjit(lambda x: bellhop.debug.print("{x.strides}", x=x))
    f(1.0)
    with pytest.warns(
        UserWarning, match=r"needs trust=True for the file: .* the attribute 'strides'"
    ):
        f.save(tmp_path / "function.bellhop")
