"""qjit: its options, what it reports, and what it keeps."""

import functools
import io
import re

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

PASSES = ["order-effects", "canonicalize-callbacks", "convert-callback-to-runtime"]


@pytest.fixture(autouse=True)
def directory(own_directory):
    return own_directory


def test_unknown_options_are_named():
    with pytest.raises(TypeError, match="qjit has no option 'colour'; there are .*target, "):
        bellhop.qjit(lambda x: x, colour="red")
    with pytest.raises(TypeError, match="no option 'colour'"):
        bellhop.qjit(colour="red")


@pytest.mark.parametrize("logfile", ["qjit.log", io.BytesIO(), 3])
def test_a_log_that_takes_no_text_is_refused(logfile):
    with pytest.raises(TypeError, match="qjit: logfile must be an open text file"):
        bellhop.qjit(lambda x: x, verbose=True, logfile=logfile)


@pytest.mark.parametrize("modules", [[3], "name", 3, [print]])
def test_what_is_no_module_is_not_converted(modules):
    with pytest.raises(TypeError, match="qjit: autograph_include takes modules and names of"):
        bellhop.qjit(lambda x: x, autograph=True, autograph_include=modules)
    with pytest.raises(TypeError, match="run_autograph of '<lambda>' takes modules"):
        bellhop.run_autograph(lambda x: x, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [("pipelines", [("a", ["b"])]), ("pass_plugins", ["a.so"]), ("dialect_plugins", ["a.so"])],
)
def test_options_of_catalyst_that_change_programs_are_refused_with_a_reason(name, value):
    with pytest.raises(bellhop.CompileError, match=f"no option '{name}': .+"):
        bellhop.qjit(lambda x: x, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("abstracted_axes", {0: "n"}),
        ("async_qnodes", True),
        ("capture", True),
        ("skip_preprocess", True),
        ("use_nameloc", True),
    ],
)
def test_options_of_catalyst_that_change_no_result_are_ignored_with_a_warning(name, value):
    with pytest.warns(UserWarning, match=f"option '{name}' is ignored: .+") as warned:
        f = bellhop.qjit(**{name: value})(jnp.sum)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert f(jnp.ones(2)) == 2
    assert f(jnp.ones(3)) == 3


@pytest.mark.filterwarnings("error")
def test_defaults_of_options_of_catalyst_ask_for_nothing():
    f = bellhop.qjit(
        lambda x: 2 * x,
        abstracted_axes=None,
        async_qnodes=False,
        capture="global",
        dialect_plugins=None,
        pass_plugins=(),
        pipelines=None,
        skip_preprocess=False,
        use_nameloc=False,
    )
    assert f(3) == 6


@pytest.mark.parametrize("name", ["llvmir", "c_sig", "out_type", "capture", "compile", "run"])
def test_attributes_of_catalyst_say_what_there_is_instead(name):
    f = bellhop.qjit(lambda x: x)
    f(1.0)
    assert not hasattr(f, name)
    with pytest.raises(AttributeError, match=rf"'{name}' \(of Catalyst\): .+"):
        getattr(f, name)
    with pytest.raises(AttributeError, match=r"'compile_pipeline' \(of a QNode\)\. Pass"):
        f.compile_pipeline  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'colour'$"):
        f.colour  # noqa: B018


def test_the_module_is_an_object_too():
    f = bellhop.qjit(lambda x: {"a": jnp.sin(x)})
    assert f.compiled_function is None
    f(1.0)
    assert "stablehlo.sine" in str(f.mlir_module)
    assert [op.operation.name for op in f.mlir_module.body.operations] == ["func.func"]
    assert f.out_treedef == jax.tree.structure({"a": 0})
    assert "sine" in f.compiled_function.as_text()


@pytest.mark.parametrize(
    "options",
    [{"target": "llvmir"}, {"keep_intermediate": 4}, {"keep_intermediate": "some"}],
    ids=repr,
)
def test_wrong_values_are_refused(options):
    with pytest.raises(ValueError, match="qjit: (target|keep_intermediate) must be .*, "):
        bellhop.qjit(lambda x: x, **options)


def test_options_are_shown():
    f = bellhop.qjit(lambda x: x, keep_intermediate="pass", static_argnums=())
    assert f.compile_options == bellhop.CompileOptions(keep_intermediate="pass", static_argnums=())


def files(path):
    return sorted(file.name for file in path.iterdir())


@pytest.mark.parametrize("level", [False, 0, None, "none"])
def test_nothing_is_written_unasked(level, tmp_path):
    f = bellhop.qjit(lambda x: x, keep_intermediate=level)
    f(1.0)
    assert f.workspace is None
    assert files(tmp_path) == []


@pytest.mark.parametrize("level", [True, 1, "pipeline"])
def test_milestones_are_written(level, tmp_path):
    @bellhop.qjit(keep_intermediate=level)
    def f(x: float):
        bellhop.debug.print("{}", x)
        return x

    assert f.workspace == tmp_path / "f"
    jaxpr, *modules = reversed(files(f.workspace))
    assert jaxpr == "traced.jaxpr"
    texts = [(f.workspace / name).read_text() for name in reversed(modules)]
    assert texts[:2] == [f.mlir, f.mlir_opt]
    assert "@bellhop_callback" in texts[2]
    assert len(texts) == 3


def test_every_pass_is_written(tmp_path):
    f = bellhop.qjit(lambda x: jnp.sin(x), keep_intermediate="pass")
    f(1.0)
    names = files(f.workspace)
    assert all(any(name in file for file in names) for name in PASSES)
    changed = bellhop.qjit(lambda x: jnp.sin(x), keep_intermediate="changed")
    changed(1.0)
    # No pass has anything to do, but the last hands the table on.
    assert 2 <= len(files(changed.workspace)) < len(names)


def test_each_program_has_a_workspace_of_its_own(tmp_path):
    @bellhop.qjit(keep_intermediate=True)
    def f(x):
        return x

    f(1.0)
    first = f.workspace
    f(1)
    assert (first.name, f.workspace.name) == ("f", "f_1")
    assert "f64" in next(first.glob("*lowered*")).read_text()
    assert "i64" in next(f.workspace.glob("*lowered*")).read_text()


def test_a_report_names_every_stage_once():
    out = io.StringIO()

    @bellhop.qjit(verbose=True, logfile=out)
    def f(x):
        return bellhop.pure_callback(np.sin, float)(x)

    f(1.0)
    report = out.getvalue()
    assert "compiled <qjit test_a_report_names_every_stage_once.<locals>.f>" in report
    for stage in ("tracing", "lowering", *PASSES, "XLA"):
        (row,) = [line for line in report.splitlines() if line.startswith(stage)]
        assert " ms" in row
    f(2.0)
    assert out.getvalue() == report
    f(2)
    assert out.getvalue().count("compiled") == 2


def test_a_report_says_what_ran_circuits():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    def report(engine):
        out = io.StringIO()
        both = lambda x: (circuit(x) * circuit(x + 1), jax.grad(circuit)(x))
        f = bellhop.qjit(both, verbose=True, logfile=out, engine=engine)
        f(1.0)
        found = out.getvalue()
        f(2.0)
        assert out.getvalue() == found
        return found.splitlines()[-1]

    where = r"ran circuit \(.*test_qjit_options.py:\d+\) "
    for engine, ran in ("auto", "in the engine"), ("plugin", "by the plugin"):
        assert re.fullmatch(f"{where}2 times {ran}, once with its derivative {ran}", report(engine))


def test_reports_go_to_standard_error(capsys):
    @bellhop.qjit(verbose=True)
    def f(x: float):
        return x

    assert "compiled <qjit" in capsys.readouterr().err


def test_a_report_does_not_hide_an_exception():
    @bellhop.qjit(verbose=True, logfile=io.StringIO())
    def f(x):
        return bellhop.pure_callback(lambda x: 1 / float(x), float)(x)

    with pytest.raises(ZeroDivisionError):
        f(0.0)
    assert f(2.0) == 0.5


def takes_nothing() -> "Nowhere":  # noqa: F821
    return jnp.arange(3.0)


def fails():
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "function", [takes_nothing, functools.partial(lambda x: 2 * x, 1.0), lambda: 1.0]
)
def test_what_takes_nothing_is_compiled_where_it_is_decorated(function):
    assert "stablehlo" in bellhop.qjit(function).mlir


def test_errors_of_what_takes_nothing_come_where_it_is_decorated():
    with pytest.raises(ZeroDivisionError):
        bellhop.qjit(fails)


@pytest.mark.parametrize("given", [{"static_argnums": -1}, {"static_argnames": ["n"]}])
def test_static_arguments_are_readable(given):
    options = bellhop.qjit(lambda x, n: x * n, **given).compile_options
    assert (options.static_argnums, options.static_argnames) == ((1,), ("n",))


@pytest.mark.parametrize("given", [1.5, "n", (0, "n"), (1.0,)])
def test_static_argnums_are_positions(given):
    with pytest.raises(TypeError, match="static_argnums takes positions of arguments"):
        bellhop.qjit(lambda x, n: x * n, static_argnums=given)


@pytest.mark.parametrize("given", [1.5, 0, ("n", 1)])
def test_static_argnames_are_names(given):
    with pytest.raises(TypeError, match="static_argnames takes names of arguments"):
        bellhop.qjit(lambda x, n: x * n, static_argnames=given)


def test_circuits_are_kept_to_the_plugin():
    import pennylane as qml

    from bellhop_runtime import _runtime

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    def runs_in_engine(**options):
        before = _runtime.rows_in_engine()
        assert bellhop.qjit(lambda x: circuit(x), **options)(0.3) == pytest.approx(np.cos(0.3))
        return _runtime.rows_in_engine() - before

    assert runs_in_engine() == runs_in_engine(engine="auto") == 1
    assert runs_in_engine(engine="plugin") == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BELLHOP_ENGINE", "plugin")
        assert runs_in_engine() == 0
        assert runs_in_engine(engine="auto") == 1
        patch.setenv("BELLHOP_ENGINE", "gpu")
        with pytest.raises(ValueError, match="the engine for circuits is one of auto, plugin"):
            runs_in_engine()
    with pytest.raises(ValueError, match="engine must be one of auto, plugin, got 'gpu'"):
        bellhop.qjit(lambda x: x, engine="gpu")
