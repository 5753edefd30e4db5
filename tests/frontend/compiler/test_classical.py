"""Programs of JAX's own operations alone, which no pass changes."""

import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop
from bellhop.compiler.classical import is_classical

X = np.linspace(0.1, 0.9, 6)
TABLE = jnp.arange(6.0)
KEY = jax.random.key(5)


def long_sum(x, *, repeats):
    """Return a number computed by 80 operations, and use it more than once if `repeats`."""
    number = x[0]
    for i in range(80):
        number = jnp.sin(number) * (number if repeats else 1.0) + i
    return number


def transfer(x):
    return jax.device_put(x, jax.devices()[0]) + 1


CLASSICAL = {
    "nothing": lambda x: (),
    "arguments": lambda x: (x, 2.0),
    "a constant": lambda x: x * TABLE + np.arange(6.0),
    "a key": lambda x: x + jax.random.normal(KEY, x.shape),
    "loops and branches": lambda x: jax.lax.cond(
        x[0] > 0,
        lambda x: jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x),
        lambda x: (x[0], x),
        x,
    ),
    "own derivatives": lambda x: jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.gelu(x).sum())(x),
    "nested jits": lambda x: jax.jit(lambda x: jnp.where(x > 0.5, x, 1 / x))(x),
    "random numbers": lambda x: x + jax.random.normal(jax.random.key(3), x.shape),
    "linear algebra": lambda x: jnp.linalg.solve(jnp.diag(x) + 1, x),
    "long code of numbers used once": lambda x: long_sum(x, repeats=False),
}
OTHERS = {
    "a callback": lambda x: bellhop.pure_callback(np.sin, x)(x),
    "a callback of JAX's": lambda x: jax.pure_callback(np.sin, x, x),
    "a callback in a loop": lambda x: jax.lax.fori_loop(
        0, 2, lambda i, x: jax.pure_callback(np.sin, x, x), x
    ),
    "a print": lambda x: (jax.debug.print("{}", x), x)[1],
    "a region": lambda x: bellhop.accelerate(jnp.sin, dev="cpu")(x),
    "a transfer": transfer,
    "long code of numbers used twice": lambda x: long_sum(x, repeats=True),
}


def is_program_classical(f) -> bool:
    return f._program().code.jaxpr is not None


@pytest.mark.parametrize("name", CLASSICAL)
def test_values_are_those_of_jax(name):
    f = bellhop.qjit(CLASSICAL[name])
    ours, theirs = f(X), jax.jit(CLASSICAL[name])(X)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), ours, theirs)
    assert is_program_classical(f)


@pytest.mark.parametrize("name", OTHERS)
def test_programs_for_the_passes(name):
    f = bellhop.qjit(OTHERS[name])
    f.jit_compile((X,))
    assert not is_program_classical(f)


def test_effects_are_for_the_passes():
    def write(ref, x):
        ref[...] = x

    closed = jax.make_jaxpr(lambda ref: write(ref, 1.0))(jax.new_ref(jnp.zeros(())))
    assert not is_classical(closed)


def test_what_users_read():
    f = bellhop.qjit(CLASSICAL["a constant"])
    f(X)
    assert f.mlir == f.mlir_opt
    assert "stablehlo.multiply" in f.mlir
    assert "tensor<6xf64>" in f.mlir
    assert f.mlir_module.operation.verify()
    assert "mul" in str(f.jaxpr)
    # The text is what XLA gets, but for the table.
    assert "stablehlo.multiply" in f.lower(X).as_text()


def test_saved(tmp_path):
    f = bellhop.qjit(CLASSICAL["loops and branches"])
    expected = f(X)
    f.save(tmp_path / "f")
    jax.tree.map(np.testing.assert_array_equal, bellhop.load(tmp_path / "f")(X), expected)


def test_another_module_in_its_place():
    f = bellhop.qjit(lambda x: x * 2.0)
    f(X)
    bellhop.debug.replace_ir(f, "lowered", f.mlir.replace("multiply", "add"))
    np.testing.assert_allclose(f(X), X + 2)


def test_arguments_that_are_unused_donated_or_keys():
    f = bellhop.qjit(lambda x, unused, key: x + jax.random.uniform(key, (6,)), donate_argnums=0)
    given, key = jnp.asarray(X), jax.random.key(1)
    expected = X + jax.random.uniform(key, (6,))
    np.testing.assert_allclose(f(given, jnp.ones(3), key), expected)
    assert given.is_deleted()
    assert f._program().code.arguments == (0, 2)


def test_cleared_and_called_with_other_arrays():
    f = bellhop.qjit(lambda x: jnp.sin(x))
    for _ in range(2):
        for x in (X, jnp.asarray(X), X[:2]):
            np.testing.assert_allclose(f(x), np.sin(x))
        f.clear_cache()


def test_lowered_after_the_cache_was_cleared():
    # As by a thread that has traced a program when another thread clears the cache.
    f = bellhop.qjit(lambda x: jnp.sin(x))
    traced = f.trace(X)._jax_stage
    f.clear_cache()
    f(X)
    assert "stablehlo.sine" in traced.lower().as_text()


def test_function_is_freed():
    def make():
        @jax.custom_jvp
        def twice(x):
            return 2 * x

        @twice.defjvp
        def jvp(primals, tangents):
            # A rule that refers to the compiled function must not keep it.
            assert f is not None
            return twice(*primals), 2 * tangents[0]

        f = bellhop.qjit(lambda x: twice(x))
        np.testing.assert_allclose(f(X), 2 * X)
        np.testing.assert_allclose(f(jnp.asarray(X)), 2 * X)
        assert is_program_classical(f)
        return weakref.ref(f)

    made = make()
    gc.collect()
    assert made() is None
