"""Names and behaviour that users of Catalyst know."""

import inspect
import io
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop
import bellhop.utils.exceptions


@pytest.mark.parametrize("name", ["AutoGraphError", "CompileError", "DifferentiableCompileError"])
def test_errors_have_one_home(name):
    found = {
        getattr(module, name) for module in (bellhop, bellhop.errors, bellhop.utils.exceptions)
    }
    assert len(found) == 1


def test_everything_public_is_there():
    assert all(hasattr(bellhop, name) for name in bellhop.__all__)
    assert all(hasattr(bellhop.debug, name) for name in bellhop.debug.__all__)
    assert [name for name in dir(bellhop) if not name.startswith("__")] == sorted(bellhop.__all__)


def test_names_that_are_elsewhere_say_where():
    for name, written in (
        ("save", r"f\.save \(f is a compiled function\)"),
        ("print", r"bellhop\.debug\.print"),
        ("cancel_inverses", r"bellhop\.passes\.cancel_inverses"),
    ):
        with pytest.raises(AttributeError, match=f"no attribute '{name}'. Write {written}."):
            getattr(bellhop, name)
    assert not hasattr(bellhop, "nothing")


def test_submodules_list_their_public_names():
    for module in (bellhop.debug, bellhop.passes, bellhop.host_callback):
        public = [name for name in dir(module) if not name.startswith("__")]
        assert public == sorted(module.__all__)


def test_attributes_of_a_program_that_there_is_not_yet():
    f = bellhop.qjit(lambda x: x)
    assert not hasattr(f, "mlir")
    with pytest.raises(bellhop.CompileError, match="has not been compiled: call it first"):
        _ = f.mlir
    f(1.0)
    assert hasattr(f, "mlir")


def test_objects_have_short_names():
    class Layer:
        @bellhop.accelerate
        def apply(self, x):
            return x

    def branch():
        return 1

    described = {
        "<accelerate 'sin' on cpu:0>": bellhop.accelerate(jnp.sin, dev="cpu:0"),
        "<bound accelerate 'apply'>": Layer().apply,
        "<cond with the branches 'branch', 'branch'>": bellhop.cond(True, branch, branch),
        "<switch with the cases default>": bellhop.switch(0)(branch),
        "<pure_callback 'branch'>": bellhop.pure_callback(branch, int),
    }
    for text, value in described.items():
        assert repr(value) == text
    assert "\n" not in repr(bellhop.draw(lambda x: 2 * x)(1.0))


def test_assertions_see_the_values_of_the_run():
    @bellhop.qjit
    def f(x):
        bellhop.debug_assert(x < 5, "x must be below 5")
        return x * 8

    assert f(4) == 32
    with pytest.raises(RuntimeError) as raised:
        f(6)
    assert raised.value.args == ("x must be below 5",)
    assert f(3) == 24


def test_assertions_of_arrays_in_loops_and_under_transformations():
    def f(x):
        def body(i, total):
            bellhop.debug_assert(total < 10, "too much")
            return total + x

        return jax.lax.fori_loop(0, 3, body, jnp.zeros_like(x))

    assert jax.grad(bellhop.qjit(lambda x: f(x)))(1.0) == 3.0
    with pytest.raises(RuntimeError, match="too much"):
        bellhop.qjit(f)(7.0)
    with pytest.raises(RuntimeError, match="too much"):
        bellhop.qjit(f)(np.array([1.0, 7.0]))
    with pytest.raises(RuntimeError, match="too much"):
        bellhop.qjit(jax.vmap(f))(np.array([1.0, 7.0]))
    with pytest.raises(RuntimeError, match="too much"):
        f(7.0)


def test_assertions_can_be_left_out():
    def f(x):
        bellhop.debug_assert(x < 5, "x must be below 5")
        return x

    compiled = bellhop.qjit(f, disable_assertions=True)
    assert compiled(6.0) == 6.0
    assert "debug_assert" not in compiled.mlir
    # What the outermost function says holds for what it calls.
    assert bellhop.qjit(bellhop.qjit(f), disable_assertions=True)(6.0) == 6.0
    with pytest.raises(RuntimeError):
        bellhop.qjit(compiled)(6.0)


def test_assertions_need_a_message():
    with pytest.raises(TypeError, match="the message is 3, expected a string"):
        bellhop.debug_assert(True, 3)


def test_print_memref(capsys):
    @bellhop.qjit
    def f(x, y):
        bellhop.debug.print_memref(x)
        bellhop.debug.print_memref(y)

    f(0.5, np.arange(6, dtype=np.int32).reshape(2, 3))
    assert capsys.readouterr().out.splitlines() == [
        "MemRef: dtype = float64 rank = 0 offset = 0 sizes = [] strides = [] data =",
        "0.5",
        "MemRef: dtype = int32 rank = 2 offset = 0 sizes = [2, 3] strides = [3, 1] data =",
        "[[0 1 2]",
        " [3 4 5]]",
    ]
    with pytest.raises(TypeError, match="one array or number, got a dict"):
        bellhop.debug.print_memref({})


def test_instrumentation_prints_stages_and_runs(capsys):
    f = bellhop.qjit(lambda x: jnp.sin(x))
    with bellhop.debug.instrumentation("first"):
        assert f(0.0) == 0.0
    lines = capsys.readouterr().out.splitlines()
    stages = [line.split()[0] for line in lines[2:]]
    # The comparison compiles something as well.
    assert (lines[0], stages[:3]) == ("first", ["tracing", "XLA", "run"])
    with bellhop.debug.instrumentation("second", detailed=True):
        f(0.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["run"]


def test_instrumentation_writes_a_file(tmp_path):
    f = bellhop.qjit(lambda x: bellhop.pure_callback(np.sin, float)(x))
    path = tmp_path / "session.yml"
    with bellhop.debug.instrumentation("a: name", path, detailed=True):
        f(0.0)
    with bellhop.debug.instrumentation("nothing", path):
        pass
    text = path.read_text()
    assert 'name: "a: name"' in text
    assert re.search(r"- order-effects:\n +walltime: \d+\.\d+\n", text)
    assert re.search(r"- lowering:\n(.*\n){1,2} +programsize: \d+", text)
    assert text.endswith("results: []\n")


def test_no_recording_goes_on_after_an_error():
    f = bellhop.qjit(lambda x: bellhop.pure_callback(lambda x: 1 / float(x), float)(x))
    with pytest.raises(ZeroDivisionError), bellhop.debug.instrumentation("failing"):
        f(0.0)
    out = io.StringIO()
    assert bellhop.qjit(lambda x: x, verbose=True, logfile=out)(1.0) == 1.0
    assert out.getvalue()


def test_draw_graph_is_a_figure(tmp_path):
    def f(x):
        return bellhop.for_loop(0, 3)(lambda i, y: bellhop.pure_callback(np.sin, float)(y))(2 * x)

    figure, axes = bellhop.draw_graph(f)(1.0)
    texts = {text.get_text() for text in axes.texts}
    assert {"\n".join(node.text) for node in bellhop.draw(f)(1.0).graph.nodes()} <= texts
    figure.savefig(tmp_path / "program.png")
    assert (tmp_path / "program.png").stat().st_size > 1000
    with pytest.raises(ValueError, match="needs a QNode, got .* Leave level out"):
        bellhop.draw_graph(f, level=1)


def test_draw_graph_of_a_level():
    @bellhop.qjit
    @qml.transforms.merge_rotations
    @qml.transforms.cancel_inverses
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.X(0)
        qml.X(0)
        bellhop.for_loop(0, 2, 1)(lambda i: qml.RX(x, 0) and None)()
        return qml.expval(qml.Z(0))

    for level, gates in ((0, ["RX", "RX", "X", "X"]), ("cancel-inverses", ["RX"] * 2), (2, ["RX"])):
        figure, axes = bellhop.draw_graph(circuit, level=level)(1.2)
        texts = [text.get_text() for text in axes.texts]
        assert sorted(text for text in texts if text in ("X", "RX")) == gates
        figure.clear()
    with pytest.raises(ValueError, match="draw_graph: 3 is not a level of this circuit"):
        bellhop.draw_graph(circuit, level=3)


def test_draw_graph_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="draw_graph needs Matplotlib: pip install matplotlib"):
        bellhop.draw_graph(lambda x: x)(1.0)


def test_stages_have_groups():
    groups = dict(bellhop.debug.get_compilation_stages_groups(bellhop.CompileOptions()))
    assert groups["optimization"][0] == "order-effects"
    assert "convert-callback-to-runtime" in groups["conversion"]


def test_replaced_modules_run():
    f = bellhop.qjit(lambda x: x + x)
    with pytest.raises(bellhop.CompileError, match="has not been compiled"):
        bellhop.debug.replace_ir(f, "mlir", "")
    assert (f(3.0), f(3)) == (6.0, 6)
    bellhop.debug.replace_ir(f, "mlir", f.mlir.replace("stablehlo.add", "stablehlo.multiply"))
    # The newest program is that of integers.
    assert (f(3.0), f(3), f(4)) == (6.0, 9, 16)
    assert "multiply" in f.mlir_opt


def test_modules_with_callbacks_are_replaced_after_a_pass(own_directory):
    @bellhop.qjit(keep_intermediate=True)
    def f(x):
        return bellhop.pure_callback(lambda x: np.cos(x), float)(x) + x

    f(2.0)
    stage = "canonicalize-callbacks"
    text = bellhop.debug.get_compilation_stage(f, stage)
    bellhop.debug.replace_ir(f, stage, text.replace("stablehlo.add", "stablehlo.multiply"))
    assert f(2.0) == pytest.approx(2 * np.cos(2))
    bellhop.debug.replace_ir(f, stage, "no module")
    with pytest.raises(
        bellhop.CompileError, match=f"replaces the stage '{stage}' cannot be compiled: Unable"
    ):
        f(2.0)


def test_stages_are_named_in_errors():
    f = bellhop.qjit(lambda x: x)
    f(1.0)
    with pytest.raises(bellhop.CompileError, match="no stage 'mlir'; there are none: compile with"):
        bellhop.debug.get_compilation_stage(f, "mlir")
    with pytest.raises(bellhop.CompileError, match="no stage 'O2Opt'; there are lowered, "):
        bellhop.debug.replace_ir(f, "O2Opt", "")
    for function in (bellhop.debug.get_compilation_stage, bellhop.debug.replace_ir):
        with pytest.raises(TypeError, match=f"{function.__name__} takes a qjit function first"):
            function(len, *["mlir"] * (len(inspect.signature(function).parameters) - 1))


@pytest.mark.parametrize("name", ["get_cmain", "compile_executable"])
def test_there_are_no_executables(name):
    with pytest.raises(NotImplementedError, match=f"debug.{name}: .* f.save"):
        getattr(bellhop.debug, name)(bellhop.qjit(len), 1.0)
