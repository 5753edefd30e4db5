"""Programs with accelerated functions, in all that ``jax.jit`` composes with.

Each is a function of ``mark``, which wraps the functions that are accelerated, and returns a
function and its arguments.
"""

import jax
import jax.numpy as jnp
import numpy as np

import bellhop

X = np.array([0.5, 1.5, -0.7])
MATRIX = np.array([[0.1, 0.2, 0.5], [0.3, 0.4, -1.0], [1.5, -0.5, 0.25]])


def wave(x):
    return jnp.sin(x) * x**2


def total(x):
    return jnp.sum(wave(x))


def weighted(x, w):
    return jnp.tanh(w @ x)


@jax.custom_vjp
def clipped(x):
    return jnp.sum(x**2)


clipped.defvjp(lambda x: (jnp.sum(x**2), x), lambda x, g: (jnp.clip(g * x, -0.6, 0.6),))


@jax.custom_jvp
def scaled(x):
    return jnp.sum(x**3)


scaled.defjvp(lambda primals, tangents: (scaled(*primals), 7 * jnp.sum(tangents[0])))


CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


# Derivatives.


@case
def grad(mark):
    return jax.grad(mark(total)), (X,)


@case
def jvp(mark):
    return lambda x: jax.jvp(mark(wave), (x,), (2 * x,)), (X,)


@case
def vjp(mark):
    def f(x):
        y, pull = jax.vjp(mark(wave), x)
        return y, pull(y)

    return f, (X,)


@case
def jacfwd(mark):
    return jax.jacfwd(mark(wave)), (X,)


@case
def jacrev(mark):
    return jax.jacrev(mark(wave)), (X,)


@case
def hessian(mark):
    return jax.hessian(mark(total)), (X,)


@case
def third_derivative(mark):
    return jax.jacfwd(jax.hessian(mark(total))), (X,)


@case
def grad_of_several_arguments(mark):
    return jax.grad(lambda x, w: jnp.sum(mark(weighted)(x, w)), argnums=(0, 1)), (X, MATRIX)


@case
def grad_with_auxiliary_value(mark):
    return jax.value_and_grad(mark(lambda x: (total(x), wave(x))), has_aux=True), (X,)


@case
def jvp_with_a_symbolic_zero(mark):
    return jax.grad(lambda x: jnp.sum(mark(weighted)(x, MATRIX))), (X,)


@case
def linear_transpose(mark):
    f = mark(lambda x: MATRIX @ x)
    return lambda y: jax.linear_transpose(f, X)(y), (X,)


# Batching.


@case
def vmap(mark):
    return jax.vmap(mark(total)), (MATRIX,)


@case
def vmap_in_axes(mark):
    return jax.vmap(mark(weighted), in_axes=(None, 2)), (X, np.stack([MATRIX, 2 * MATRIX], 2))


@case
def vmap_out_axes(mark):
    return jax.vmap(mark(wave), in_axes=1, out_axes=1), (MATRIX,)


@case
def vmap_of_vmap(mark):
    return jax.vmap(jax.vmap(mark(wave))), (MATRIX,)


@case
def vmap_over_captured_values(mark):
    return jax.vmap(lambda w: mark(lambda x: jnp.dot(w, x))(X)), (MATRIX,)


@case
def vmap_over_captured_and_arguments(mark):
    return jax.vmap(lambda w, x: mark(lambda x: w * x)(x), in_axes=(0, 1)), (MATRIX, MATRIX)


@case
def vmap_of_grad(mark):
    return jax.vmap(jax.grad(mark(total))), (MATRIX,)


@case
def grad_of_vmap(mark):
    return jax.grad(lambda m: jnp.sum(jax.vmap(mark(total))(m))), (MATRIX,)


@case
def vmap_of_hessian(mark):
    return jax.vmap(jax.hessian(mark(total))), (MATRIX,)


# Control flow.


@case
def scan(mark):
    def step(carry, x):
        y = mark(wave)(carry + x)
        return y, jnp.sum(y)

    return lambda x: jax.lax.scan(step, x, MATRIX), (X,)


@case
def grad_of_scan(mark):
    def loss(x):
        return jnp.sum(jax.lax.scan(lambda c, v: (mark(wave)(c) * v, None), x, MATRIX)[0])

    return jax.grad(loss), (X,)


@case
def while_loop(mark):
    return lambda x: jax.lax.while_loop(
        lambda v: mark(total)(v) < 50, lambda v: mark(wave)(v) + 1.5, x
    ), (X,)


@case
def fori_loop_inside(mark):
    return mark(lambda x: jax.lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) + i, x)), (X,)


@case
def cond(mark):
    return lambda x: jax.lax.cond(x[0] > 0, mark(total), lambda v: v[0], x), (X,)


@case
def grad_of_cond(mark):
    return jax.grad(lambda x: jax.lax.cond(x[0] > 0, mark(total), lambda v: v[0], x)), (X,)


@case
def switch(mark):
    branches = [mark(wave), lambda v: v, mark(jnp.cos)]
    return lambda i, x: jax.lax.switch(i, branches, x), (2, X)


@case
def vmap_of_cond(mark):
    f = lambda x: jax.lax.cond(x[0] > 0.2, mark(total), lambda v: v[0], x)  # noqa: E731
    return jax.vmap(f), (MATRIX,)


@case
def jax_lax_map(mark):
    return lambda m: jax.lax.map(mark(total), m), (MATRIX,)


@case
def associative_scan(mark):
    return lambda m: jax.lax.associative_scan(mark(jnp.add), m), (MATRIX,)


# Checkpoints and custom rules.


@case
def checkpoint(mark):
    return jax.grad(jax.checkpoint(mark(total))), (X,)


@case
def checkpoint_inside(mark):
    return jax.grad(mark(jax.checkpoint(total))), (X,)


@case
def checkpoint_in_scan(mark):
    body = jax.checkpoint(lambda c, _: (mark(wave)(c), None))
    return jax.grad(lambda x: jnp.sum(jax.lax.scan(body, x, None, length=2)[0])), (X,)


@case
def custom_vjp_inside(mark):
    return jax.grad(mark(lambda x: clipped(jnp.sin(x)))), (X,)


@case
def custom_jvp_inside(mark):
    return jax.grad(mark(lambda x: scaled(jnp.sin(x)))), (X,)


@case
def inside_custom_vjp(mark):
    @jax.custom_vjp
    def f(x):
        return mark(total)(x)

    f.defvjp(lambda x: (mark(total)(x), x), lambda x, g: (g * mark(wave)(x),))
    return jax.grad(f), (X,)


@case
def inside_the_rules_of_a_callback(mark):
    accelerated = mark(total)

    @bellhop.pure_callback
    def f(x) -> float:
        return accelerated(x)

    f.fwd(lambda x: (accelerated(x), x))
    f.bwd(lambda x, g: (g * jax.grad(accelerated)(x),))
    return jax.value_and_grad(lambda x: f(x)), (X,)


# Kinds of functions and arguments.


@case
def partial_of_tree_util(mark):
    return mark(jax.tree_util.Partial(weighted, X)), (MATRIX,)


@case
def a_jitted_function(mark):
    return mark(jax.jit(wave)), (X,)


@case
def inside_a_jitted_function(mark):
    return jax.jit(lambda x: jax.jit(mark(wave))(x) + 1), (X,)


@case
def keyword_arguments(mark):
    f = mark(lambda x, *, scale, shift=None: scale * x if shift is None else scale * x + shift)
    return lambda x: f(x, scale=2.0) + f(x, scale=x, shift=1.0), (X,)


@case
def trees_with_none(mark):
    f = mark(lambda tree: {"sum": tree["a"] + tree["b"][1], "none": tree["b"][0], "n": [None]})
    return lambda x: f({"a": x, "b": (None, 2 * x)}), (X,)


@case
def integers(mark):
    return mark(lambda n, x: (n + 1, x**n, n // 2)), (3, X)


@case
def grad_past_integers(mark):
    return jax.grad(lambda x, n: jnp.sum(mark(lambda x, n: x**n)(x, n))), (X, 3)


@case
def random_keys(mark):
    def f(seed):
        first, second = jax.random.split(jax.random.key(seed))
        draw = mark(lambda key: (jax.random.normal(key, (3,)), jax.random.fold_in(key, 1)))
        values, key = draw(first)
        return values + mark(lambda k: jax.random.uniform(k, (3,)))(key), jax.random.bits(second)

    return f, (7,)


@case
def closure_over_tracers(mark):
    return lambda x, y: mark(lambda v: v * x + y)(x + y), (X, 2 * X)


@case
def grad_of_a_closure_over_tracers(mark):
    return jax.grad(lambda x: jnp.sum(mark(lambda v: v * x)(x**2))), (X,)


@case
def captured_weights(mark):
    weights = jnp.asarray(MATRIX)
    return jax.grad(lambda x: jnp.sum(mark(lambda v: weights @ v)(x) ** 2)), (X,)


@case
def no_arguments(mark):
    return lambda x: mark(lambda: jnp.arange(3.0))() + x, (X,)


@case
def result_that_is_an_argument(mark):
    return mark(lambda x, y: (y, x, x)), (X, 2 * X)


@case
def no_results(mark):
    def f(x):
        mark(lambda v: None)(x)
        return x

    return f, (X,)


# Nesting.


@case
def nested_twice(mark):
    return jax.grad(mark(lambda x: jnp.sum(mark(wave)(mark(jnp.exp)(x))))), (X,)


@case
def chain_with_glue(mark):
    def f(x):
        for _ in range(4):
            x = mark(wave)(x) * 0.5 + 0.25
        return x

    return f, (X,)


@case
def linear_algebra(mark):
    inverse = mark(jnp.linalg.inv)
    return jax.grad(lambda m: jnp.sum(inverse(m + 3 * jnp.eye(3)))), (MATRIX,)
