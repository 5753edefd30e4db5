"""What jax.jit has beside calls, of qjit functions: stages, donation, references, export."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def test_a_lowered_program_is_compiled_and_runs():
    seen = []

    def function(x, n, *, y):
        bellhop.debug.callback(seen.append)(x)
        return {"z": x * n + y}

    f = bellhop.qjit(function, static_argnums=1)
    compiled = f.lower(jax.ShapeDtypeStruct((2,), float), 3, y=1.0).compile()
    result = compiled(np.ones(2), y=np.float64(2.0))
    np.testing.assert_array_equal(result["z"], [5, 5])
    assert len(seen) == 1
    assert len(f._programs.entries) == 1
    assert "HloModule" in compiled.as_text()
    with pytest.raises(TypeError, match=r"compiled for \(x: float64\[2\], y: float64\[\]\)"):
        compiled(np.ones(3), y=2.0)


def test_an_exception_reaches_the_caller_of_a_compiled_program():
    def fails(x):
        raise KeyError("mine")

    compiled = bellhop.qjit(lambda x: bellhop.pure_callback(fails, float)(x)).lower(1.0).compile()
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            compiled(1.0)


def test_stages_are_those_of_jax():
    f = bellhop.qjit(lambda x, n: {"y": x * n}, static_argnames="n")
    stages = f.trace(jnp.ones(3), n=2)
    assert "mul" in str(stages.jaxpr)
    assert f.trace(jnp.ones(3), n=2).jaxpr is stages.jaxpr
    assert stages.lower().compile()(jnp.ones(3))["y"][0] == 2
    assert repr(stages.lower()) == "<Lowered <lambda>>"
    assert f.eval_shape(jnp.ones(3), n=2)["y"] == jax.ShapeDtypeStruct((3,), float)


def test_a_cleared_function_compiles_again():
    traces = []
    f = bellhop.qjit(lambda x: traces.append(x) or 2 * x)
    for _ in range(2):
        assert f(2.0) == 4
        f.clear_cache()
    assert len(traces) == 2
    with pytest.raises(bellhop.CompileError, match="has not been compiled"):
        f.mlir  # noqa: B018


@pytest.mark.parametrize("calls", [False, True])
def test_an_argument_that_was_donated_before_is_named(calls):
    def double(pair):
        value = bellhop.pure_callback(lambda x: 2 * x, jnp.zeros(3))(pair["a"])
        return {"a": value if calls else 2 * pair["a"]}

    f = bellhop.qjit(double, donate_argnums=0)
    for _ in range(2):
        given = {"a": jnp.arange(3.0)}
        np.testing.assert_array_equal(f(given)["a"], [0, 2, 4])
        with pytest.raises(RuntimeError) as caught:
            f(given)
        assert "qjit of 'double'" in str(caught.value)
        assert f"{__file__}:" in str(caught.value)
        assert "the argument pair['a'] is an array that was deleted" in str(caught.value)


def test_donated_arguments_are_gone():
    f = bellhop.qjit(lambda n, x, y: (x * n, y), static_argnums=0, donate_argnums=1)
    x, y = jnp.ones(1000), jnp.ones(1000)
    result, _ = f(2, x, y)
    assert result[0] == 2
    assert (x.is_deleted(), y.is_deleted()) == (True, False)
    with pytest.raises(ValueError, match="expected non-negative positions"):
        bellhop.qjit(lambda n, x: x, static_argnums=0, donate_argnums=0)
    with pytest.raises(ValueError, match="donate_argnums has 4, but the function has 1 positional"):
        bellhop.qjit(lambda x: x, donate_argnums=4)
    with pytest.raises(ValueError, match="has 0 twice. Name each argument once"):
        bellhop.qjit(lambda x: x, donate_argnums=(0, 0))
    # As many as there may be.
    assert bellhop.qjit(lambda *xs: xs[1], donate_argnums=1)(1.0, 2.0) == 2.0


def test_references_from_outside_are_refused_by_name():
    ref = jax.new_ref(jnp.ones(3))

    def by_argument(ref):
        ref[0] = 2.0

    def by_closure(x):
        ref[0] = x

    with pytest.raises(
        TypeError, match=r"the argument ref is a Ref\{float64\[3\]\}, a mutable reference"
    ):
        bellhop.qjit(by_argument)(ref)
    with pytest.raises(bellhop.CompileError, match=r"'by_closure' .* closes over a Ref"):
        bellhop.qjit(by_closure)(2.0)
    assert ref[0] == 1


@bellhop.pure_callback
def identity(x) -> float:
    return x


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, 0)
    return qml.expval(qml.Z(0))


@pytest.mark.parametrize(
    ("function", "what"), [(identity, "pure_callback identity"), (circuit, "circuit circuit")]
)
def test_export_is_refused_by_name(function, what):
    f = bellhop.qjit(function)
    with pytest.raises(NotImplementedError, match=rf"callbacks or circuits \({what}\)"):
        jax.export.export(jax.jit(lambda x: f(x)))(1.0)
    # Later calls work.
    assert jax.jit(lambda x: f(x))(0.0) in (0, 1)


def test_a_program_of_arrays_is_exported():
    f = bellhop.qjit(lambda x: jnp.sin(x))
    exported = jax.export.export(jax.jit(lambda x: f(x)))(1.0)
    assert exported.call(2.0) == jnp.sin(2.0)


def test_export_takes_a_qjit_function_as_it_takes_a_jit():
    f = bellhop.qjit(lambda x, n: {"y": jnp.sin(x) * n}, static_argnums=1)
    exported = jax.export.export(f, platforms=["cpu"])(jax.ShapeDtypeStruct((3,), float), 2)
    np.testing.assert_allclose(exported.call(jnp.ones(3))["y"], 2 * np.sin(np.ones(3)))
    with pytest.raises(NotImplementedError, match="jax.export"):
        jax.export.export(bellhop.qjit(lambda x: bellhop.pure_callback(abs, float)(x)))(1.0)


@pytest.mark.parametrize("stage", ["lower", "trace", "jit_compile"])
def test_an_argument_that_is_no_array_is_named_before_a_call_too(stage):
    f = bellhop.qjit(lambda x, options: x)
    args = (1.0, {"mode": "text"})
    with pytest.raises(TypeError, match=r"the argument options\['mode'\] is of type str"):
        getattr(f, stage)(*((args,) if stage == "jit_compile" else args))
    assert f.lower(jax.ShapeDtypeStruct((3,), float), {}).compile()(np.ones(3), {}).shape == (3,)
