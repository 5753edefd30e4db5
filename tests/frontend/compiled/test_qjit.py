"""qjit: what it takes and returns, and when it compiles."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop._jax import fast_dispatch


class Point(NamedTuple):
    x: object
    y: object


@pytest.fixture
def traces():
    return []


def test_decorator_and_function_forms(traces, own_directory):
    @bellhop.qjit
    def first(x):
        return x + 1

    @bellhop.qjit()
    def second(x):
        return x + 1

    @bellhop.qjit(keep_intermediate=True)
    def third(x):
        return x + 1

    for f in (first, second, third, bellhop.qjit(lambda x: x + 1)):
        assert isinstance(f, bellhop.QJIT)
        assert f(1.0) == 2.0


def test_keeps_name_and_docstring():
    @bellhop.qjit
    def f(x):
        """What f does."""
        return x

    assert (f.__name__, f.__doc__, f.__wrapped__) == ("f", "What f does.", f.original_function)
    assert "f" in repr(f)


@pytest.mark.parametrize("wrong", [3, "f", [len]], ids=repr)
def test_what_cannot_be_called_is_refused(wrong):
    with pytest.raises(TypeError, match="qjit takes a function, got"):
        bellhop.qjit(wrong)


NEW_SIGNATURES = {
    "shape": (np.zeros(2), np.zeros(3)),
    "rank": (np.zeros(2), np.zeros((2, 1))),
    "dtype": (np.zeros(2), np.zeros(2, np.float32)),
    "weak type": (1.0, np.float64(1.0)),
    "structure": ((1.0, 2.0), [1.0, 2.0]),
    "keys": ({"a": 1.0}, {"b": 1.0}),
    "None": (None, 1.0),
    "int": (1, 1.0),
    "bool": (True, 1),
}


@pytest.mark.parametrize(("one", "other"), NEW_SIGNATURES.values(), ids=NEW_SIGNATURES)
def test_compiles_once_for_each_signature(traces, one, other):
    @bellhop.qjit
    def f(x):
        traces.append(1)
        return jax.tree.map(lambda leaf: leaf + 1, x)

    for value in (one, other, one, other):
        f(value)
    assert len(traces) == 2


@pytest.mark.parametrize("make", [float, int, np.float32, jnp.asarray, lambda v: np.full(3, v)])
def test_never_compiles_for_new_values(traces, make):
    @bellhop.qjit
    def f(x):
        traces.append(1)
        return 2 * x

    for value in range(5):
        np.testing.assert_array_equal(f(make(value)), 2 * np.asarray(make(value)))
    assert len(traces) == 1


def test_arrays_of_numpy_and_of_jax_are_one_signature(traces):
    @bellhop.qjit
    def f(x):
        traces.append(1)
        return x.sum()

    assert f(np.arange(3.0)) == f(jnp.arange(3.0)) == 3.0
    assert len(traces) == 1


def test_keyword_arguments(traces):
    @bellhop.qjit
    def f(x, *, scale=2.0, **others):
        traces.append(1)
        return x * scale + sum(others.values())

    assert f(3.0) == 6.0
    assert f(3.0, scale=5.0) == 15.0
    assert f(x=3.0, a=1.0, b=2.0) == 9.0
    assert f(x=3.0, b=3.0, a=2.0) == 11.0
    assert len(traces) == 3


@pytest.mark.parametrize(
    "tree",
    [
        None,
        (),
        {},
        {"b": 1.0, "a": (2.0, [3.0, None])},
        Point(1.0, {"k": 2.0}),
        [np.arange(3.0), jnp.ones((2, 2))],
    ],
    ids=repr,
)
def test_pytrees_in_and_out(tree):
    result = bellhop.qjit(lambda t: jax.tree.map(lambda leaf: 2 * leaf, t))(tree)
    assert jax.tree.structure(result) == jax.tree.structure(tree)
    jax.tree.map(lambda r, t: np.testing.assert_array_equal(r, 2 * t), result, tree)


def test_no_arguments():
    assert bellhop.qjit(lambda: jnp.arange(3).sum())() == 3


RESULTS = [1, 2.5, True, 1j, np.float32(3), np.arange(3), None, (1, None, {"a": 2.0}), []]


@pytest.mark.parametrize("result", RESULTS, ids=repr)
def test_constant_results_are_those_of_jit(result):
    ours, theirs = bellhop.qjit(lambda: result)(), jax.jit(lambda: result)()
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert isinstance(one, jax.Array)
        assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("value", [1, 1.0, True, 1j, np.float32(1), np.int8(1), np.ones(2)])
def test_types_are_those_of_jit(value):
    functions = [
        lambda x: x,
        lambda x: x * 2,
        lambda x: (x, x + jnp.float32(1)),
        lambda x: jnp.zeros(2, jnp.float32) + x,
        lambda x: jnp.sin(x),
    ]
    for function in functions:
        ours, theirs = bellhop.qjit(function)(value), jax.jit(function)(value)
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            assert jax.typeof(one) == jax.typeof(other)
            assert one.weak_type == other.weak_type


def test_unused_repeated_and_passed_through_arguments():
    f = bellhop.qjit(lambda a, b, c: (c, a, a, 1.0))
    assert f(1.0, np.ones(3), 3.0) == (3.0, 1.0, 1.0, 1.0)


def test_captured_arrays_are_constants():
    matrix = np.arange(10_000.0).reshape(100, 100)
    f = bellhop.qjit(lambda v: jnp.asarray(matrix) @ v)
    np.testing.assert_allclose(f(np.ones(100)), matrix.sum(1))


def test_random_keys():
    f = bellhop.qjit(lambda key: jax.random.normal(key, (3,)))
    key = jax.random.key(1)
    np.testing.assert_array_equal(f(key), jax.random.normal(key, (3,)))


@pytest.mark.parametrize(
    "transform",
    [
        jax.jit,
        jax.grad,
        jax.vmap,
        lambda f: lambda x: jax.jvp(lambda v: f(v[0]), (x,), (x,)),
        jax.checkpoint,
        jax.hessian,
        lambda f: jax.vmap(jax.grad(f)),
        lambda f: lambda x: jax.lax.map(f, x),
        bellhop.qjit,
        lambda f: bellhop.qjit(bellhop.qjit(f)),
    ],
)
def test_under_transformations(transform):
    def f(x):
        return jnp.sum(x**3) if jnp.ndim(x) else x**3

    x = jnp.array([0.5, 2.0])
    try:
        expected = jax.jit(transform(f))(x)
    except TypeError:
        pytest.fail("the reference itself is wrong")
    compiled = transform(bellhop.qjit(f))(x)
    jax.tree.map(np.testing.assert_allclose, compiled, expected)


def test_gradients_of_gradients_in_both_nestings():
    f = bellhop.qjit(lambda x: x**4)
    assert bellhop.qjit(jax.grad(jax.grad(f)))(2.0) == 48.0
    assert jax.grad(bellhop.qjit(jax.grad(f)))(2.0) == 48.0


class Model:
    def __init__(self, scale):
        self.scale = scale
        self.traces = 0

    @bellhop.qjit
    def method(self, x):
        return x * 2

    @classmethod
    def build(cls):
        return cls(3.0)

    def plain(self, x):
        self.traces += 1
        return self.scale * x


jax.tree_util.register_pytree_node(
    Model, lambda model: ((model.scale,), None), lambda _, children: Model(*children)
)


def test_methods():
    model = Model(3.0)
    assert model.method(4.0) == 8.0
    assert Model.method(model, 4.0) == 8.0

    bound = bellhop.qjit(model.plain)
    assert [float(bound(i)) for i in (1.0, 2.0)] == [3.0, 6.0]
    assert model.traces == 1


def test_partials_and_callable_objects():
    class Callable:
        def __call__(self, x):
            return x + 5

    assert bellhop.qjit(functools.partial(lambda a, x: a * x, 3.0))(2.0) == 6.0
    assert bellhop.qjit(jax.tree_util.Partial(lambda a, x: a * x, 3.0))(2.0) == 6.0
    assert bellhop.qjit(Callable())(1.0) == 6.0


def test_error_while_tracing_leaves_the_function_usable(traces):
    @bellhop.qjit
    def f(x):
        traces.append(1)
        if len(traces) == 1:
            raise LookupError("first")
        return x

    with pytest.raises(LookupError, match="first"):
        f(1.0)
    assert f(1.0) == 1.0


def test_result_that_is_no_array_is_an_error():
    with pytest.raises(TypeError, match="'text'|str"):
        bellhop.qjit(lambda: "text")()


def test_same_program_text_with_other_functions_stays_apart():
    # Both signatures give the same module, and call different closures.
    @bellhop.qjit
    def f(tree):
        ((name, value),) = tree.items()
        return bellhop.pure_callback(lambda x: x * (2 if name == "a" else 3), float)(value)

    for _ in range(2):
        assert (float(f({"a": 1.0})), float(f({"b": 1.0}))) == (2.0, 3.0)


def test_cached_calls_stay_on_the_fast_path_of_jit(monkeypatch):

    double = bellhop.pure_callback(lambda x: 2 * x, float)

    @bellhop.qjit
    def f(x):
        bellhop.debug.callback(lambda v: None)(x)
        return double(x) + bellhop.accelerate(jnp.sin)(x)

    f(1.0)
    f(2.0)
    slow = []
    original = fast_dispatch._make_entry

    def watched(compiled, **options):
        slow.append(1)
        return original(compiled, **options)

    monkeypatch.setattr(fast_dispatch, "_make_entry", watched)
    for i in range(5):
        f(float(i))
    assert slow == []
    assert f._runner.choose_fast_call()[0]._cache_size() == 1
    f(np.ones(()))
    assert slow, "the probe must see what leaves the fast path"


@pytest.mark.parametrize(
    ("result", "part"), [("text", ""), ({"a": [1.0, "text"]}, r"\['a'\]\[1\]")]
)
def test_a_result_that_is_no_array_is_an_error(result, part):
    @bellhop.qjit
    def program(x):
        return result

    with pytest.raises(
        TypeError,
        match=rf"qjit of 'program' \(.*test_qjit.py:\d+\): the result{part} is of type str",
    ):
        program(1.0)


@pytest.mark.parametrize("option", [jax.debug_nans, jax.debug_infs], ids=["nan", "inf"])
def test_what_is_not_finite_is_found_where_it_is_made(option):
    f = bellhop.qjit(lambda x: 2 * jnp.log(x))
    with option(True):
        assert f(1.0) == 0
        with pytest.raises(FloatingPointError, match="encountered in log"):
            f(-1.0 if option is jax.debug_nans else 0.0)
        assert f(1.0) == 0
        # In the first run too, and of a callback.
        g = bellhop.qjit(lambda x: 2 * bellhop.pure_callback(lambda x: bad, float)(x))
        bad = np.nan if option is jax.debug_nans else np.inf
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="forbids. Return other values"):
                g(1.0)


@pytest.mark.parametrize(
    "run",
    [
        lambda call, x: jax.lax.scan(lambda c, v: (c + call(v), c), 0.0, jnp.array([1.0, x]))[0],
        lambda call, x: bellhop.for_loop(0, 3, 1)(lambda i, c: call(c))(x),
        lambda call, x: jax.lax.cond(x < 0, call, lambda x: x, x),
    ],
    ids=["scan", "for_loop", "cond"],
)
def test_a_callback_in_control_flow_that_returns_nan_is_named(run):
    """JAX evaluates a loop as one operation, and names only ``scan``."""
    log = bellhop.pure_callback(lambda x: np.log(x) if x > 0 else np.nan, float)
    f = bellhop.qjit(functools.partial(run, log))
    with jax.debug_nans(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match=r"'<lambda>' \(called.*returned nan"):
                f(-1.0)
        assert np.isfinite(f(1e9))
    assert np.isnan(f(-1.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: bellhop.io_callback(f, float)(x),
        lambda f, x: bellhop.callback(f)(x) or x,
        lambda f, x: bellhop.tap(f, x) or x,
        lambda f, x: jax.experimental.io_callback(f, jax.ShapeDtypeStruct((), float), x),
    ],
    ids=["io", "callback", "tap", "jax"],
)
def test_effects_of_a_program_whose_result_is_not_finite_are_not_repeated(call):
    seen = []

    @bellhop.qjit
    def program(x):
        return jnp.log(call(lambda v: seen.append(float(v)) or v, x))

    where = rf"'program' \({__file__}:\d+\): a result is NaN or infinite"
    with jax.debug_nans(True):
        for _ in range(3):
            with pytest.raises(FloatingPointError, match=where):
                program(-1.0)
        assert program(1.0) == 0
    bellhop.barrier_wait()
    assert seen == [-1.0, -1.0, -1.0, 1.0]


@pytest.mark.parametrize("size", [(), (30000,)], ids=["scalar", "array that XLA copies later"])
def test_a_first_call_whose_result_is_not_finite(size):
    """It is JAX's ``Compiled``, which has another exception, that runs then."""
    f = bellhop.qjit(lambda x: 2 * jnp.log(bellhop.pure_callback(lambda y: y, like)(x)))
    like = jax.ShapeDtypeStruct(size, float)
    with jax.debug_nans(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="encountered in log"):
                f(np.full(size, -1.0))
        assert np.all(f(np.ones(size)) == 0)


@pytest.fixture
def nans_looked_for():
    """Set the option for all threads, and not in a ``with`` block."""
    jax.config.update("jax_debug_nans", True)
    yield
    jax.config.update("jax_debug_nans", False)


def test_results_are_looked_at_where_a_look_was_suspended(nans_looked_for):
    """JAX itself leaves fast calls alone from then on, in the thread where it was."""
    f = bellhop.qjit(lambda x: 2 * jnp.log(x))
    with jax.debug_nans(False):
        assert np.isnan(f(-1.0))
    for _ in range(2):
        assert f(1.0) == 0
        with pytest.raises(FloatingPointError, match="encountered in log"):
            f(-1.0)


def test_a_region_whose_result_is_not_finite():
    plain = bellhop.accelerate(lambda x: jnp.log(x), dev="cpu:1")
    same = bellhop.pure_callback(lambda x: x, float)
    with_call = bellhop.accelerate(lambda x: jnp.log(same(x)), dev="cpu:1")
    for region in (plain, with_call):
        f = bellhop.qjit(lambda x, region=region: 2 * region(x))
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan") as caught:
            f(-1.0)
        assert any("in region '_lambda_'" in note for note in caught.value.__notes__)


@pytest.mark.subprocess
def test_decorating_leaves_jax_s_devices_to_be_configured(run_script):
    printed = run_script(
        """
        import jax, numpy as np, pennylane as qml, pickle, tempfile, bellhop

        bellhop.enable_cache(tempfile.mkdtemp())
        square = bellhop.accelerate(lambda x: x * x)
        # As JAX's devices are not yet, this one is.
        named = bellhop.accelerate(lambda x: 1 * x, dev="cpu:2")
        missing = bellhop.accelerate(lambda x: x, dev="cpu:7")
        seen = bellhop.pure_callback(lambda x: named(x), float)

        @bellhop.pure_callback
        def ruled(x) -> float:
            return x

        ruled.fwd(lambda x: (ruled(x), x))
        ruled.bwd(lambda x, dy: (dy,))
        bellhop.buffer_callback(lambda context, out: None, jax.ShapeDtypeStruct((), float))
        for device in ("default.qubit", "default.mixed", "null.qubit", "reference.qubit"):
            circuit = qml.QNode(lambda: qml.expval(qml.Z(0)), qml.device(device, wires=1))
            bellhop.qjit(bellhop.vmap(circuit), seed=3, autograph=True)
            bellhop.grad(circuit), pickle.dumps(bellhop.qjit(np.sin, static_argnums=0))
        with bellhop.profile():
            pass
        bellhop.barrier_wait()

        @bellhop.qjit
        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def f(x):
            qml.RX(seen(square(x)), 0)
            return qml.expval(qml.Z(0))

        # JAX refuses it once it has made its devices.
        jax.config.update("jax_num_cpu_devices", 3)
        print(len(jax.devices()), f"{f(1.0):.3f}")
        try:
            missing(1.0)
        except ValueError as error:
            print("no device 'cpu:7'" in str(error))
        """,
        XLA_FLAGS="",
    )
    assert printed.split() == ["3", "0.540", "True"]
