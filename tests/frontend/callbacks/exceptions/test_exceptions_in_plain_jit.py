"""In a plain ``jax.jit`` too the caller gets the exception that the callback raised."""

import gc
import pickle
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import bellhop


class UserError(Exception):
    pass


def pure(function):
    return bellhop.pure_callback(function, float)


def effect(make):
    def wrap(function):
        def program(x):
            make(lambda v: function(v) and None)(x)
            return x

        return program

    return wrap


FLAVOURS = {
    "pure": pure,
    "debug": effect(bellhop.debug.callback),
    "io": effect(lambda f: bellhop.io_callback(f, None)),
    "ordered io": effect(lambda f: bellhop.io_callback(f, None, ordered=True)),
}
FORMS = {
    "straight": lambda f: f,
    "loop": lambda f: lambda x: jax.lax.fori_loop(0, 3, lambda i, v: f(v), x),
    "branch": lambda f: lambda x: jax.lax.cond(x > 0, f, lambda v: v, x),
    "nested jit": lambda f: lambda x: jax.jit(f)(x) + 0,
}


def raising(exception):
    def callback(x):
        if x > 0:
            raise exception
        return float(x)

    return callback


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=FLAVOURS)
def test_same_object_on_first_and_on_later_calls(flavour, form):
    exception = UserError("mine")
    f = jax.jit(form(flavour(raising(exception))))
    # JAX has fast calls for a program that went well twice.
    for value in (1.0, -1.0, -2.0, -3.0, 1.0, 2.0):
        if value < 0:
            assert f(value) == value
            continue
        with pytest.raises(UserError) as caught:
            f(value).block_until_ready()
        assert caught.value is exception
        assert caught.value.__cause__ is caught.value.__context__ is None
        assert f", called from {__file__}:" in exception.__notes__[0]
    exception.__traceback__ = None


@pytest.mark.parametrize(
    "exception",
    [
        KeyboardInterrupt(),
        SystemExit(3),
        FloatingPointError("nan"),
        ValueError("v"),
        StopIteration(),
    ],
    ids=lambda exception: type(exception).__name__,
)
def test_exceptions_that_mean_something_to_python_or_jax(exception):
    f = jax.jit(pure(raising(exception)))
    for _ in range(2):
        with pytest.raises(type(exception)) as caught:
            f(1.0)
        assert caught.value is exception
    assert f(-1.0) == -1.0


def test_compiled_ahead_of_time():
    compiled = jax.jit(pure(raising(UserError("x")))).lower(1.0).compile()
    for value in (-1.0, -1.0, -1.0, 1.0, 1.0):
        if value < 0:
            assert compiled(value) == value
        else:
            with pytest.raises(UserError):
                compiled(value)


def test_derivative_and_batch():
    square = pure(lambda x: float(x) ** 2)
    square.fwd(lambda x: (square(x), x))
    square.bwd(lambda x, dy: pure(raising(UserError("bwd")))(x) * dy)
    with pytest.raises(UserError, match="bwd"):
        jax.jit(jax.grad(square))(1.0)
    with pytest.raises(UserError, match="bwd"):
        jax.jit(jax.vmap(jax.grad(square)))(jnp.array([-1.0, 1.0]))


def test_on_two_devices():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("i",))
    spec = PartitionSpec("i")
    f = pure(raising(UserError("one of them")))
    mapped = jax.shard_map(lambda x: f(x[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)
    for values in ([-1.0, 2.0], [2.0, -1.0]):
        with pytest.raises(UserError, match="one of them"):
            jax.jit(mapped)(jnp.array(values)).block_until_ready()
    np.testing.assert_array_equal(jax.jit(mapped)(jnp.array([-1.0, -2.0])), [-1.0, -2.0])


def test_through_a_callback_of_another_program():
    inner = jax.jit(pure(raising(UserError("inner"))))
    outer = bellhop.qjit(pure(lambda x: float(inner(x))))
    for _ in range(2):
        with pytest.raises(UserError, match="inner"):
            outer(1.0)
    assert outer(-1.0) == -1.0


def test_nothing_is_kept():
    class Witness:
        pass

    def make(witness):
        def callback(x):
            if x > 0:
                raise UserError(witness)
            return float(x)

        return jax.jit(pure(callback)), weakref.ref(witness)

    f, reference = make(Witness())
    for _ in range(3):
        with pytest.raises(UserError):
            f(1.0)
    assert f(-1.0) == -1.0
    del f
    jax.clear_caches()
    gc.collect()
    assert reference() is None


def test_with_asynchronous_dispatch(run_script):
    out = run_script(
        """
        import warnings
        import jax
        jax.numpy.ones(1).block_until_ready()
        warnings.simplefilter("ignore")
        import bellhop
        class UserError(Exception): pass
        def callback(x):
            if x > 0:
                raise UserError("late")
            return x
        f = jax.jit(bellhop.pure_callback(callback, float))
        for value in (1.0, -1.0, -1.0, 1.0):
            try:
                print(float(f(value).block_until_ready()))
            except UserError as error:
                print(error)
        """
    )
    assert out.split() == ["late", "-1.0", "-1.0", "late"]


# What must stay as it is, for everyone who uses JAX.


def test_errors_of_jax_itself_are_as_before():
    def theirs(x):
        raise UserError("theirs")

    f = jax.jit(lambda x: jax.pure_callback(theirs, jax.ShapeDtypeStruct((), float), x))
    with pytest.raises(jax.errors.JaxRuntimeError, match="UserError: theirs"):
        f(1.0)


def test_the_class_makes_errors_as_before():
    error = jax.errors.JaxRuntimeError("NOT_FOUND: x", 5)
    assert type(error) is jax.errors.JaxRuntimeError
    assert (str(error), error.error_code) == ("NOT_FOUND: x", 5)
    assert str(jax.errors.JaxRuntimeError()) == ""
    assert pickle.loads(pickle.dumps(error)).error_code == 5
    # Nothing waits under that number.
    text = "INTERNAL: x [bellhop failure 999999999]"
    assert str(jax.errors.JaxRuntimeError(text)) == text

    class Derived(jax.errors.JaxRuntimeError):
        pass

    assert type(Derived("x")) is Derived
