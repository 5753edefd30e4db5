"""host_callback: what its documentation says of taps, prints and calls."""

import functools
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop import host_callback as hcb


@pytest.fixture
def seen():
    """What the tapped functions of a test were called with."""
    return []


def power3(seen):
    def f(x):
        y = x * x
        hcb.id_tap(lambda arg, transforms: seen.append((arg, transforms)), (x, y))
        return y * x

    return f


def test_taps_the_pytree_and_returns_it(form, seen):
    def f(x):
        return hcb.id_tap(lambda arg, transforms: seen.append((arg, transforms)), {"a": 2 * x})

    assert form(f)(1.5) == {"a": 3.0}
    hcb.barrier_wait()
    assert seen == [({"a": 3.0}, ())]


def test_result_is_returned_instead(form, seen):
    f = form(lambda x: hcb.id_tap(lambda arg, _: seen.append(arg), x, result=x + 1))
    assert f(1.0) == 2.0
    hcb.barrier_wait()
    assert seen == [1.0]


def test_device(form):
    devices = []
    tap = lambda arg, transforms, *, device, what: devices.append((device, what))
    form(lambda x: hcb.id_tap(functools.partial(tap, what="x"), x, tap_with_device=True))(1.0)
    hcb.barrier_wait()
    assert devices == [(jax.devices("cpu")[0], "x")]


def test_jvp_and_grad_tap_primal_values(form, seen):
    assert form(lambda x: jax.jvp(power3(seen), (x,), (0.1,)))(3.0) == pytest.approx((27.0, 2.7))
    assert form(jax.grad(power3(seen)))(3.0) == 27.0
    hcb.barrier_wait()
    assert seen == [((3.0, 9.0), ())] * 2


def test_cotangents_by_custom_vjp(form, seen):
    @jax.custom_vjp
    def show(arg):
        return arg

    def backward(_, cotangent):
        return (hcb.id_tap(lambda arg, _: seen.append(arg), cotangent),)

    show.defvjp(lambda arg: (arg, None), backward)

    def f(x):
        x1, y1 = show((x, x * x))
        return x1 * y1

    assert form(jax.grad(f))(3.0) == 27.0
    hcb.barrier_wait()
    assert seen == [(9.0, 3.0)]


def test_tapped_tangents_are_cotangents_in_reverse_mode(form, seen):
    @jax.custom_jvp
    def square(x):
        return x * x

    @square.defjvp
    def _(primals, tangents):
        tangent = hcb.id_tap(lambda arg, transforms: seen.append((arg, transforms)), tangents[0])
        return square(*primals), 2 * primals[0] * tangent

    assert form(lambda x: jax.jvp(square, (x,), (0.5,)))(3.0) == (9.0, 3.0)
    assert form(jax.grad(square))(3.0) == 6.0
    hcb.barrier_wait()
    assert seen == [(0.5, ()), (6.0, (("transpose", {}),))]


def test_checkpoint_repeats_taps(form, seen):
    f = power3(seen)
    form(jax.grad(lambda x: f(jax.checkpoint(f)(x))))(3.0)
    hcb.barrier_wait()
    assert [arg for arg, _ in seen] == [(3.0, 9.0), (27.0, 729.0), (3.0, 9.0)]


def test_vmap_gives_the_batch_and_its_dimensions(form, seen):
    form(jax.vmap(power3(seen)))(jnp.array([2.0, 3.0]))
    tap = lambda x, y: hcb.id_tap(lambda arg, transforms: seen.append((arg, transforms)), (x, y))
    form(jax.vmap(tap, in_axes=(1, None)))(jnp.zeros((2, 3)), 1.0)
    hcb.barrier_wait()
    (first, batch), (second, mixed) = seen
    np.testing.assert_array_equal(first, [[2.0, 3.0], [4.0, 9.0]])
    assert batch == (("batch", {"batch_dims": (0, 0)}),)
    assert [leaf.shape for leaf in second] == [(2, 3), ()]
    assert mixed == (("batch", {"batch_dims": (1, None)}),)


def test_print(form):
    stream = io.StringIO()
    show = functools.partial(hcb.id_print, what="w", also=1, output_stream=stream)
    f = form(lambda x: show({"b": (x, x), "a": [x]}))
    f(1.5)
    hcb.barrier_wait()
    assert stream.getvalue() == "also: 1 what: w\n{ a=[ 1.5 ] b=( 1.5 1.5 ) }\n"


def test_print_of_batches_and_of_much(form, capsys):
    form(jax.vmap(lambda x: hcb.id_print(x, what="x")))(jnp.array([2.0, 3.0]))
    form(lambda x: hcb.id_print(x, threshold=3))(jnp.arange(10))
    hcb.barrier_wait()
    transforms = "transforms: [('batch', {'batch_dims': (0,)})] what: x"
    assert capsys.readouterr().out == f"{transforms}\n[2. 3.]\n[0 1 2 ... 7 8 9]\n"


def test_call_returns_what_the_function_returns(form):
    kinds = {"s": jax.ShapeDtypeStruct((2,), np.float64), "n": 0}
    f = form(lambda x: hcb.call(lambda v: {"s": np.sin(v), "n": v.size}, x, result_shape=kinds))
    result = f(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(result["s"], np.sin([1.0, 2.0]))
    assert result["n"] == 2


def test_calls_and_taps_keep_program_order(form, seen):
    def f(x):
        hcb.id_tap(lambda arg, _: seen.append("tap"), x)
        y = hcb.call(lambda arg: seen.append("call") or 2 * arg, x, result_shape=x)
        hcb.call(lambda arg, *, device: seen.append(device.platform), y, call_with_device=True)
        return y

    assert form(f)(jnp.float64(1.5)) == 3.0
    assert seen == ["tap", "call", "cpu"]


@pytest.mark.parametrize(
    ("transform", "instead"),
    [(jax.grad, "jax.custom_jvp"), (jax.vmap, "jax.lax.map")],
    ids=["grad", "vmap"],
)
def test_call_has_no_transformations(form, transform, instead):
    f = lambda x: hcb.call(np.sin, x, result_shape=jax.ShapeDtypeStruct((), np.float64)) * x
    with pytest.raises(NotImplementedError, match=f"call of 'sin' .* has no rule for.*{instead}"):
        form(transform(f))(1.0 if transform is jax.grad else jnp.ones(2))


def test_wrong_result_is_a_type_error():
    kind = jax.ShapeDtypeStruct((), np.float64)
    with pytest.raises(TypeError, match=r"returned float64\[3\], declared float64\[\]"):
        bellhop.qjit(lambda x: hcb.call(lambda v: np.zeros(3), x, result_shape=kind))(1.0)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="expected a pytree of numbers"):
        hcb.call(np.sin, 1.0, result_shape="text")
    with pytest.raises(TypeError, match="takes no keyword arguments for the function, got what"):
        hcb.id_tap(print, 1.0, what="x")
    for use in (hcb.id_tap, hcb.call):
        with pytest.raises(TypeError, match=rf"{use.__name__} takes a function first, got 3"):
            use(3, 1.0)
    with pytest.raises(ValueError, match="device_index is 1, expected 0 on a CPU"):
        hcb.id_tap(print, 1.0, device_index=1)


def test_exceptions_are_raised_by_the_barrier(form):
    def fail(arg, transforms):
        raise KeyError("k")

    form(lambda x: hcb.id_tap(fail, x))(1.0)
    with pytest.raises(hcb.CallbackException, match="KeyError"):
        hcb.barrier_wait("name")
    assert hcb.TapFunctionException is bellhop.CallbackException
    assert hcb.stop_outfeed_receiver() is None
