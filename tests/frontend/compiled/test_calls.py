"""Calls of compiled functions: what of them runs in Python, and what of a function they are."""

import functools
import inspect
import pickle
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def python_called_by(function, *args, **kwargs):
    """Return the names of Python functions that a call runs, after the first two."""
    for _ in range(2):
        function(*args, **kwargs)
    called = []

    def note(frame, event, _):
        if event == "call":
            called.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function(*args, **kwargs)
    finally:
        sys.setprofile(before)
    return called


@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0))


@bellhop.pure_callback
def doubled(x) -> float:
    return 2 * x


@qml.qnode(qml.device("default.qubit", wires=3))
def state(angles):
    for layer in angles:
        for wire, (x, y) in enumerate(layer):
            qml.RX(x, wires=wire)
            qml.RY(y, wires=wire)
        for wire in range(3):
            qml.CNOT([wire, (wire + 1) % 3])
    return qml.state()


def bellhop_callback(x):
    """A name like those of the runtime's calls."""
    return x + 1


def declared(x: float, n: int, vector: jax.ShapeDtypeStruct((2,), float)):  # type: ignore
    return n * x + vector


CALLS = {
    "array": (lambda x: x + 1, (jnp.array(0.5),), {}),
    "number": (lambda x: x + 1, (0.5,), {}),
    "NumPy": (lambda x: x + 1, (np.ones(3),), {}),
    "keyword": (lambda x, y: x + y, (0.5,), {"y": 1.5}),
    "no argument": (lambda: 1.0, (), {}),
    "pytree": (
        lambda tree: {name: x + 1 for name, x in tree.items()},
        ({str(i): jnp.array(float(i)) for i in range(20)},),
        {},
    ),
    "declared": (declared, (1, 3, jnp.ones(2)), {}),
    "circuit": (circuit, (0.5,), {}),
    "circuit in the program": (state, (jnp.ones((2, 3, 2)),), {}),
    "name of the runtime's": (lambda x: jax.jit(bellhop_callback)(x), (0.5,), {}),
    "gradient": (bellhop.value_and_grad(circuit), (jnp.array(0.5),), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_runs_no_python(name):
    function, args, kwargs = CALLS[name]
    assert python_called_by(bellhop.qjit(function), *args, **kwargs) == []


def test_a_call_runs_the_callback_alone():
    called = python_called_by(bellhop.qjit(lambda x: doubled(x)), jnp.array(0.5))
    assert called == ["doubled"]


def test_a_function_of_a_device_that_is_gone_and_one_that_prints_are_called_in_python(capfd):
    def shown(x):
        bellhop.debug.print("{}", x)
        return x

    compiled = bellhop.qjit(shown)
    assert [float(compiled(x)) for x in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    assert capfd.readouterr().out.split() == ["1.0", "2.0", "3.0"]


def test_a_new_program_leaves_fast_calls_that_are_under_way():
    function = bellhop.qjit(lambda x: 2 * x)
    function(1.0)
    before = function._fast
    assert before is not None
    function(jnp.ones(2))
    assert function._fast is before


def test_circuits_take_arrays_that_are_copied_meanwhile():
    angles = np.linspace(0.1, 0.3, 100_000)
    of_last = bellhop.qjit(lambda x: circuit(x[-1]))
    assert "prepare_arguments" not in python_called_by(of_last, angles)
    result = of_last(angles)
    assert result.is_ready()
    np.testing.assert_allclose(result, np.cos(0.3))
    # A callback may wait for another program's, on one of the few threads that copy.
    with_callback = bellhop.qjit(lambda x: bellhop.pure_callback(float, float)(x[-1]))
    assert "prepare_arguments" in python_called_by(with_callback, angles)


@pytest.mark.parametrize("form", [lambda x: x, lambda x: {"a": [x]}], ids=["array", "nested"])
def test_arrays_may_change_after_the_call(form):
    last = bellhop.qjit(lambda tree: jnp.cumsum(jax.tree.leaves(tree)[0])[-1])
    for _ in range(50):
        values = np.ones(300_000)
        result = last(form(values))
        values[:] = 0
        assert result == 300_000


def test_declared_types_are_those_of_fast_calls():
    def identity(x: float, z: complex):
        return x, z

    f = bellhop.qjit(identity)
    for args in [
        (1, 2.0),
        (True, 1),
        (1.5, 1j),
        (jnp.array(1.5), np.complex128(2)),
        (np.ones(()), 1),
    ]:
        for _ in range(2):
            x, z = f(*args)
            assert (x.dtype, z.dtype) == (np.float64, np.complex128)
            assert not x.weak_type
            assert (x, z) == args
    with pytest.warns(UserWarning, match="declares arguments"):
        assert f(1.5 + 0j, 1.0)[0].dtype == np.complex128
    assert f(x=1, z=2)[0].dtype == np.float64
    for args in [(1.0,), (1.0, 2.0, 3.0)]:
        with pytest.raises(TypeError, match="the arguments do not match"):
            f(*args)


def test_programs_of_one_function_are_told_apart():
    @bellhop.qjit
    def f(x):
        return doubled(x) if x.ndim == 0 else x + 1

    for _ in range(2):
        assert f(1.5) == 3.0
        assert f(jnp.ones(2)).tolist() == [2.0, 2.0]


def test_a_program_that_begins_late_is_over_when_its_call_returns():
    """JAX copies large NumPy arrays on a thread of its own, after which the program begins."""
    ended = []

    @bellhop.io_callback
    def end(x) -> None:
        ended.append(x.size)

    f = bellhop.qjit(lambda x: end(x[:2]))
    large = np.zeros(1 << 20)
    for number in range(1, 6):
        f(large)
        assert len(ended) == number


def test_what_a_late_program_raises_reaches_its_caller():
    @bellhop.pure_callback
    def fail(x) -> float:
        raise KeyError("late")

    f = bellhop.qjit(lambda x: fail(x[0]))
    large = np.zeros(1 << 20)
    for _ in range(3):
        with pytest.raises(KeyError, match="late"):
            f(large)
    assert sys.exc_info() == (None, None, None)


def test_a_failed_call_leaves_no_run_and_no_context():
    from bellhop_runtime import runs_under_way

    @bellhop.pure_callback
    def fail(x) -> float:
        raise KeyError(float(x))

    f = bellhop.qjit(lambda x: fail(x))
    for x in (1.0, 2.0, 3.0):
        with pytest.raises(KeyError) as caught:
            f(x)
        assert caught.value.args == (x,)
        assert caught.value.__context__ is None
    assert runs_under_way() == 0


def test_it_is_a_function_to_python():
    @bellhop.qjit
    def f(x: float, *, y: float = 2.0) -> float:
        """Add."""
        return x + y

    assert str(inspect.signature(f)) == "(x: float, *, y: float = 2.0) -> float"
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("f", "Add.", f.original_function)
    assert callable(f)
    assert weakref.ref(f)() is f
    assert functools.partial(f, y=3.0)(1.0) == 4.0


class Model:
    def __init__(self, factor):
        self.factor = factor

    @bellhop.qjit(static_argnums=0)
    def scaled(self, x):
        return self.factor * x

    plain = bellhop.qjit(lambda self, x: 3 * x, static_argnums=0)


def test_it_is_a_method_of_a_class():
    assert Model(2.0).scaled(1.5) == 3.0
    assert Model(4.0).plain(1.5) == 4.5
    assert Model.plain(Model(4.0), 1.5) == 4.5


class Counting(bellhop.QJIT):
    def __call__(self, *args, **kwargs):
        self.calls = getattr(self, "calls", 0) + 1
        return super().__call__(*args, **kwargs)


def test_subclasses_call_what_they_override():
    f = Counting(lambda x: x + 1)
    assert [float(f(x)) for x in (1.0, 2.0)] == [2.0, 3.0]
    assert f.calls == 2
    assert jax.grad(f)(1.0) == 1.0
    assert f.calls == 3


@bellhop.qjit
def increment(x):
    return x + 1


def test_copies_are_called_as_it_is():
    assert pickle.loads(pickle.dumps(increment))(1.0) == 2.0
    compiled = increment.lower(1.0).compile()
    assert [float(compiled(x)) for x in (1.0, 2.0)] == [2.0, 3.0]
    assert python_called_by(increment, 1.0) == []


def test_tracers_and_declared_types_are_seen_after_fast_calls():
    f = bellhop.qjit(lambda x: x**2)
    assert f(3.0) == 9.0
    assert f(3.0) == 9.0
    assert jax.grad(f)(3.0) == 6.0
    assert jax.jit(f)(3.0) == 9.0
    assert jax.vmap(f)(jnp.arange(3.0)).tolist() == [0.0, 1.0, 4.0]
    assert bellhop.qjit(lambda x: f(x) + 1)(3.0) == 10.0
