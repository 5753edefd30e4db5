"""Taps in programs that are transformed: primals, whole batches, what is computed again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop import DifferentiableCompileError


@pytest.mark.parametrize("transform", [jax.grad, jax.jacfwd], ids=["grad", "jacfwd"])
def test_derivatives_tap_primal_values(form, log, transform):
    def f(x):
        y = log("x", x) ** 2
        return log("y", y) * x

    # What a tap sees does not depend on whether the value is used.
    assert form(transform(f))(3.0) == 27.0
    assert log() == [("x", 3.0), ("y", 9.0)]


def test_hessian_taps_primal_values(form, log):
    assert form(jax.hessian(lambda x: log("x", x) ** 3))(2.0) == 12.0
    assert log() == [("x", 2.0)]


def test_grad_of_loops_taps_each_iteration_of_the_forward_pass(form, log):
    def f(x):
        def step(carry, i):
            log("same", x)
            return log("carry", carry) * x, None

        return jax.lax.scan(step, x, jnp.arange(3))[0]

    assert form(jax.grad(f))(2.0) == 32.0
    assert log() == [
        event
        for iteration in range(3)
        for event in (("same", 2.0), ("carry", 2.0 ** (iteration + 1)))
    ]


def test_checkpoint_taps_again_what_is_computed_again(form, log):
    f = jax.checkpoint(lambda x: jnp.sin(log("y", x**2)))
    np.testing.assert_allclose(form(jax.grad(f))(3.0), 6 * np.cos(9.0))
    assert log() == [("y", 9.0)] * 2


def test_checkpoint_does_not_tap_again_what_is_saved(form, log):
    saved = jax.checkpoint_policies.everything_saveable
    f = jax.checkpoint(lambda x: jnp.sin(log("y", x**2)), policy=saved)
    np.testing.assert_allclose(form(jax.grad(f))(3.0), 6 * np.cos(9.0))
    assert log() == [("y", 9.0)]


def test_checkpoint_in_a_loop(form, log):
    def f(x):
        body = jax.checkpoint(lambda carry, i: (jnp.sin(log("carry", carry)), None))
        return jax.lax.scan(body, x, jnp.arange(2))[0]

    np.testing.assert_allclose(form(jax.grad(f))(0.5), np.cos(np.sin(0.5)) * np.cos(0.5))
    forward = [("carry", 0.5), ("carry", np.sin(0.5))]
    np.testing.assert_allclose([v for _, v in log()], [v for _, v in forward + forward[::-1]])


def test_custom_vjp_taps_cotangents(form, log):
    @jax.custom_vjp
    def cotangent(x):
        return x

    cotangent.defvjp(lambda x: (x, None), lambda _, ct: (log("cotangent", ct),))
    assert form(jax.grad(lambda x: cotangent(log("x", x)) ** 2))(3.0) == 6.0
    assert log() == [("x", 3.0), ("cotangent", 6.0)]


def custom_jvp_tap(log):
    @jax.custom_jvp
    def square(x):
        return x**2

    @square.defjvp
    def _(primals, tangents):
        log("tangent", tangents[0])
        return square(*primals), 2 * primals[0] * tangents[0]

    return square


def test_forward_mode_taps_tangents(form, log):
    square = custom_jvp_tap(log)
    assert form(lambda x: jax.jvp(square, (x,), (0.5,)))(3.0) == (9.0, 3.0)
    assert log() == [("tangent", 0.5)]


def test_tap_of_a_tangent_in_reverse_mode_is_refused(form, log):
    with pytest.raises(
        DifferentiableCompileError,
        match=r"tap .*conftest.py:\d+\) has a tangent argument, which reverse mode",
    ):
        form(jax.grad(custom_jvp_tap(log)))(3.0)
    assert log() == []


def test_vmap_taps_the_whole_batch_once(form):
    seen = []
    f = jax.vmap(lambda x, y: (bellhop.tap(lambda *a: seen.append(a), x, y), x)[1], (1, None))
    xs = jnp.arange(6.0).reshape(2, 3)
    form(f)(xs, 5.0)
    bellhop.barrier_wait()
    ((batch, single),) = seen
    np.testing.assert_array_equal(batch, xs.T)
    assert single == 5.0


def test_nested_vmap_has_the_outermost_axis_first(form):
    seen = []
    tap = lambda x: bellhop.tap(seen.append, x)
    form(jax.vmap(jax.vmap(tap, in_axes=1), in_axes=2))(jnp.arange(24.0).reshape(2, 3, 4))
    bellhop.barrier_wait()
    (batch,) = seen
    np.testing.assert_array_equal(batch, np.arange(24.0).reshape(2, 3, 4).transpose(2, 1, 0))


def test_vmap_of_grad_and_of_loops(form, log):
    def f(x):
        return jax.lax.fori_loop(0, 2, lambda i, c: log("c", c) * x, x)

    np.testing.assert_array_equal(form(jax.vmap(jax.grad(f)))(jnp.arange(3.0)), [0, 3, 12])
    assert log() == [("c", [0.0, 1.0, 2.0]), ("c", [0.0, 1.0, 4.0])]


def test_shard_map_taps_on_each_device(run_script):
    out = run_script(
        """
        import bellhop, jax, jax.numpy as jnp, numpy as np
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("d",))
        spec = jax.sharding.PartitionSpec("d")
        seen = []
        def f(x):
            bellhop.tap(lambda v: seen.append(v.tolist()), x)
            return 2 * x
        f = jax.jit(jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec))
        for i in range(3):
            f(jnp.arange(4.0) + i)
        bellhop.barrier_wait()
        assert sorted(seen) == sorted([[k + i, k + i + 1.0] for i in range(3) for k in (0.0, 2.0)])
        print("done")
        """,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )
    assert out.strip() == "done"
