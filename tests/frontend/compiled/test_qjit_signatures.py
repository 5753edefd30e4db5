"""qjit: declared types, static arguments, and ahead-of-time compilation."""

import warnings
from dataclasses import dataclass

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


@pytest.fixture
def traces():
    return []


@pytest.fixture
def compilations():
    """Count what XLA compiles."""
    events = []

    def listen(event, _duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return events


def test_declared_types_compile_at_decoration(traces):
    @bellhop.qjit
    def f(x: float, y: jax.ShapeDtypeStruct((3,), float), z: tuple[int, bool]):
        traces.append(1)
        return x * y, z

    assert len(traces) == 1
    assert "tensor<3xf64>" in f.mlir
    value, rest = f(2.0, np.ones(3), (1, True))
    np.testing.assert_array_equal(value, 2 * np.ones(3))
    assert rest == (1, True)
    assert len(traces) == 1


def test_nothing_is_compiled_at_the_first_call(compilations):
    @bellhop.qjit
    def f(x: float):
        return x * 2

    assert compilations
    compilations.clear()
    result = f(2.0)
    assert compilations == []
    assert result == 4.0


def test_functions_without_arguments_compile_at_decoration(traces):
    @bellhop.qjit
    def f():
        traces.append(1)
        return 3

    assert len(traces) == 1
    assert (f(), f()) == (3, 3)
    assert len(traces) == 1


def test_quantum_functions_and_derivatives_declare_types_too():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: float):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    for function in (circuit, bellhop.grad(circuit)):
        compiled = bellhop.qjit(function)
        assert "quantum.begin" in compiled.mlir
    np.testing.assert_allclose(bellhop.qjit(bellhop.grad(circuit))(0.3), -np.sin(0.3))


def f_without(x): ...
def f_half(x: float, y): ...
def f_shapeless(x: jax.Array): ...
def f_other(x: "nothing of this name"): ...  # noqa: F722
def f_string(x: str): ...
def f_variadic(*x: float): ...
def f_keyword(*, x: float): ...


@pytest.mark.parametrize(
    "function", [f_without, f_half, f_shapeless, f_other, f_string, f_variadic, f_keyword]
)
def test_other_annotations_wait_for_the_call(function):
    compiled = bellhop.qjit(function)
    with pytest.raises(bellhop.CompileError, match="has not been compiled"):
        compiled.jaxpr  # noqa: B018
    with pytest.raises(bellhop.CompileError, match="annotation of shape and dtype for every"):
        compiled.aot_compile()


@pytest.mark.parametrize(
    "value",
    [1, True, 1.5, np.float32(1.5), np.int8(1), jnp.asarray(1), jnp.asarray(2.0), np.ones(())],
)
def test_arguments_promote_to_declared_types(traces, value):
    @bellhop.qjit
    def f(x: float):
        traces.append(1)
        return x / 2

    result = f(value)
    assert (result, result.dtype, result.weak_type) == (value / 2, np.float64, False)
    assert f(x=2.0) == 1.0
    assert len(traces) == 1


def test_defaults_are_declared_arguments(traces):
    @bellhop.qjit
    def f(x: float, y: float = 3.0):
        traces.append(1)
        return x * y

    assert [f(2.0), f(2.0, 2), f(x=2.0), f(2.0, y=5.0), f(y=1, x=1)] == [6, 4, 6, 10, 1]
    assert len(traces) == 1
    with pytest.raises(
        TypeError, match=r"f\(\): the arguments do not match: missing a required argument: 'x'"
    ):
        f()
    with pytest.raises(TypeError, match=r"do not match: got the unknown keywords 'xx', 'z'\. The"):
        f(xx=1.0, z=2.0)


@pytest.mark.parametrize("value", [1j, np.ones(2), [1.0], np.complex64(1)], ids=repr)
def test_what_does_not_promote_is_compiled_with_a_warning(traces, value):
    @bellhop.qjit
    def f(x: float):
        traces.append(1)
        return jax.tree.map(lambda leaf: leaf * 2, x)

    with pytest.warns(
        UserWarning, match=r"'f' \(.*test_qjit_signatures.py:\d+\) declares .*float64"
    ) as seen:
        f(value)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(value)
        assert f(2.0) == 4.0
    assert len(traces) == 2


def test_an_error_at_decoration_is_the_users(traces):
    with pytest.raises(LookupError, match="mine"):

        @bellhop.qjit
        def f(x: float):
            raise LookupError("mine")


def test_declared_types_inside_another_program():
    @bellhop.qjit
    def outer(x):
        @bellhop.qjit
        def inner(y: float):
            return y * 2

        return inner(x) + 1

    assert outer(3.0) == 7.0
    assert jax.jit(outer)(3) == 7


@pytest.mark.parametrize("wrong", ["b", "text", object()])
def test_what_is_no_array_is_refused_by_name_where_types_are_declared(wrong):
    @bellhop.qjit
    def f(x: float, n: int):
        return x * n

    with pytest.raises(
        TypeError, match=r"'f' \(.*: the argument n is of type .*, which is not an array"
    ):
        f(1.0, wrong)
    assert f(2.0, 3) == 6.0


@pytest.mark.parametrize("target", ["mlir", "jaxpr"])
def test_targets_stop_before_the_executable(target, compilations, traces):
    @bellhop.qjit(target=target)
    def f(x: float):
        traces.append(1)
        return jnp.sin(x)

    assert "sin" in str(f.jaxpr)
    assert "stablehlo.sine" in f.mlir
    assert compilations == []
    assert f(0.0) == 0.0
    assert len(traces) == 1


@pytest.mark.parametrize("args", [(1.0, 2.0), (np.ones(2),)])
def test_jit_compile_expects_its_arguments_in_a_tuple(args):
    with pytest.raises(
        TypeError, match=r"expected one tuple of arguments, got \d values?, the first of type"
    ):
        bellhop.qjit(lambda *xs: xs[0]).jit_compile(*args)


def test_jit_compile_compiles_without_running():
    calls = []
    f = bellhop.qjit(lambda x, y: bellhop.debug.callback(calls.append)(x + y))
    assert f.jit_compile((1.0,), y=2.0) is False
    assert calls == []
    assert "HloModule" in f.compiled_function.as_text()
    f(1.0, y=2.0)
    assert calls == [3.0]

    @bellhop.qjit
    def g(x: float):
        return x

    assert g.jit_compile((1,)) is True
    assert g.jit_compile((np.float64(1),)) is False


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": 1},
        {"static_argnums": (-1,)},
        {"static_argnames": "n"},
        {"static_argnames": ["n"]},
    ],
    ids=repr,
)
def test_static_arguments(traces, options):
    @bellhop.qjit(**options)
    def f(x, n):
        traces.append(n)
        return x if n == "same" else x * len(n)

    assert [f(2.0, "same"), f(2.0, "other"), f(3.0, "same"), f(3.0, n="other")] == [2, 10, 3, 15]
    assert traces == ["same", "other"] or traces == ["same", "other", "other"]


def test_static_arguments_of_every_kind(traces):
    @bellhop.qjit(static_argnums=(0, 2), static_argnames=("scale", "mode"))
    def f(a, x, b, /, c=1, *rest, scale=2, mode="add", **others):
        traces.append(1)
        total = a + x + b + c + sum(rest) + sum(others.values())
        return total * scale if mode == "add" else -total

    assert f(1, 2.0, 3) == 14.0
    assert f(1, 2.0, 3, 4, 5, 6, z=7.0, mode="minus") == -28.0
    assert f(1, 5.0, 3, c=1.0, scale=3) == 30.0
    assert len(traces) == 3
    assert f(1, 5.0, 3, c=2.0, scale=3) == 33.0
    assert len(traces) == 3


def test_static_values_that_are_equal_and_of_other_types_differ(traces):
    @bellhop.qjit(static_argnums=0)
    def f(n):
        traces.append(n)
        return n

    results = [f(n) for n in (1, 1.0, True)]
    assert [result.dtype for result in results] == [np.int64, np.float64, np.bool_]
    assert len(traces) == 3


@dataclass
class Setting:
    value: int

    def __hash__(self):
        return hash(str(self))


def test_a_changed_static_object_is_another_argument(traces):
    @bellhop.qjit(static_argnums=1)
    def f(x, setting):
        traces.append(1)
        return x + setting.value

    setting = Setting(5)
    assert f(1, setting) == f(1, Setting(5)) == 6
    assert len(traces) == 1
    setting.value = 7
    assert f(1, setting) == 8
    assert f(2, Setting(5)) == 7


@pytest.mark.parametrize(("value", "type_"), [([1], "list"), (np.ones(2), "ndarray"), ({}, "dict")])
def test_static_arguments_that_cannot_be_hashed(value, type_):
    @bellhop.qjit(static_argnums=1)
    def f(x, n):
        return x

    for call in (lambda: f(1.0, value), lambda: f(1.0, n=value)):
        with pytest.raises(
            ValueError, match=rf"'f' \(.*\): the static argument .* is of type {type_}, "
        ):
            call()
    assert f(1.0, 2) == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"static_argnums": 2},
            "static_argnums has 2, but the function has 2 positional parameters",
        ),
        ({"static_argnums": -3}, "static_argnums has -3"),
        ({"static_argnames": "m"}, "static_argnames has 'm', expected names of parameters: x, n"),
    ],
)
def test_static_arguments_that_there_are_not(options, message):
    with pytest.raises(ValueError, match=message):
        bellhop.qjit(lambda x, n: x, **options)


def test_static_arguments_prevent_compilation_at_decoration(traces):
    @bellhop.qjit(static_argnums=1)
    def f(x: float, n: int):
        traces.append(1)
        for _ in range(n):
            x = x * 2
        return x

    assert traces == []
    assert f(1.0, 3) == 8.0


@pytest.mark.parametrize(
    "transform",
    [jax.jit, jax.grad, bellhop.qjit, lambda f: lambda x: jax.vmap(f)(jnp.ones(2) * x)[0]],
)
def test_static_arguments_under_transformations(transform):
    f = bellhop.qjit(lambda x, n: x**n, static_argnums=1)
    expected = transform(lambda x: x**3)(2.0)
    assert transform(lambda x: f(x, 3))(2.0) == expected


@pytest.mark.parametrize(
    ("options", "args", "kwargs", "name"),
    [
        ({}, ("a", 1), {}, "x"),
        ({}, (1, {"k": [1, object]}), {}, r"y\['k'\]\[1\]"),
        ({}, (1,), {"y": "a"}, "y"),
        ({"static_argnums": 0}, ("a", "b"), {}, "y"),
    ],
)
def test_arguments_that_are_no_arrays_are_named(options, args, kwargs, name):
    def f(x, y):
        return y

    with pytest.raises(TypeError, match=rf"qjit of 'f' \(.*\): the argument {name} is of type"):
        bellhop.qjit(f, **options)(*args, **kwargs)


@pytest.mark.parametrize(
    ("options", "name"), [({}, "y_1"), ({"static_argnums": 0}, "y_1"), ({"autograph": True}, "y_1")]
)
def test_errors_of_tracing_name_function_and_argument(options, name):
    def f(x, y):
        return float(y[1])

    line = f.__code__.co_firstlineno
    with pytest.raises(jax.errors.ConcretizationTypeError) as raised:
        bellhop.qjit(f, **options)(1, [2, 3])
    text = str(raised.value)
    assert f"the value of the argument {name}." in text
    assert "function f at" in text
    if "autograph" not in options:
        assert f"{__file__}:{line}" in text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.arange(3).astype(">i4"),
            r"dtype >i4, which JAX does not support. .*newbyteorder\('='\)",
        ),
        (
            np.array([1, None]),
            "dtype object, which JAX .*Convert it to a boolean",
        ),
        (np.zeros(2, [("a", int)]), ".*Use a dictionary of its fields"),
        (np.array(["2026-01-01"], "M8[D]"), r"dtype datetime64\[D\], which"),
    ],
)
def test_arrays_of_types_that_jax_does_not_have(value, message):
    with pytest.raises(TypeError, match=f"the argument x is an array of {message}"):
        bellhop.qjit(lambda x: x)(value)
    with pytest.raises(TypeError, match="the result is an array of dtype"):
        bellhop.qjit(lambda: value)()


@pytest.mark.parametrize("form", [lambda x: x, lambda x: [{"a": x}]], ids=["array", "nested"])
@pytest.mark.parametrize("compile_", [bellhop.qjit, bellhop.accelerate])
def test_arrays_that_jax_rejects_are_told_apart_after_the_first_call(compile_, form):
    double = compile_(lambda tree: jax.tree.map(lambda x: 2 * x, tree))
    values = np.arange(3.0)
    for _ in range(2):
        assert jax.tree.leaves(double(form(values)))[0].tolist() == [0, 2, 4]
        with pytest.raises(TypeError, match="an array of dtype >f8, which JAX does not support"):
            double(form(values.astype(">f8")))
        with pytest.raises(TypeError, match="a masked array, which JAX does not .* Pass an array"):
            double(form(np.ma.masked_array(values, [0, 1, 0])))


def test_a_pytree_with_functions_is_told_to_be_partitioned():
    model = {"weights": np.ones(2), "activation": np.tanh}
    with pytest.raises(TypeError, match="Pass the pytree's arrays, and keep the remaining leaves"):
        bellhop.qjit(lambda m: m["weights"])(model)
    with pytest.raises(TypeError, match="Make the argument static"):
        bellhop.qjit(lambda x, f: f(x))(1.0, np.tanh)


class Column:
    """What NumPy makes an array of, and JAX does not, as a pandas.Series."""

    def __array__(self, dtype=None, copy=None):
        return np.ones(2, dtype)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (
            Column(),
            TypeError,
            "of type Column, which is not an array. Convert the argument to an array of "
            "numbers by numpy.asarray",
        ),
        (2**63, OverflowError, "9223372036854775808, which does not fit in 64 bits. Pass a float"),
        (-(2**70), OverflowError, "-1180591620717411303424, which does not fit in 64"),
    ],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: bellhop.qjit(f)(1, x),
        lambda f, x: bellhop.qjit(lambda y, x: bellhop.qjit(f)(y, x))(1, x),
        lambda f, x: bellhop.accelerate(f)(1, x),
        lambda f, x: jax.jacfwd(bellhop.qjit(f))(1.0, x),
    ],
    ids=["qjit", "nested", "accelerate", "derivative"],
)
def test_arguments_that_no_type_holds_are_named(call, value, error, message):
    with pytest.raises(error, match=rf"the argument x\['k'\] is {message}"):
        call(lambda y, x: y, {"k": value})


def test_symbolic_shapes_are_refused_by_name():
    (batch,) = jax.export.symbolic_shape("batch")
    f = bellhop.qjit(lambda x: x.sum(1))
    with pytest.raises(bellhop.CompileError, match="symbolic shapes are not supported"):
        f.jit_compile((jax.ShapeDtypeStruct((batch, 4), float),))
    np.testing.assert_array_equal(f(np.ones((2, 4))), [4, 4])
