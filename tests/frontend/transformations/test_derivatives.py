"""grad, jacobian and value_and_grad of classical functions, against JAX's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

SETTINGS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda f: f}


def assert_same(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert jnp.shape(one) == jnp.shape(other)
        assert jnp.result_type(one) == jnp.result_type(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def scalar(x: Any, y: Any = 1.5) -> Any:
    return jnp.sum(jnp.sin(x) * y) ** 2


def several(x: Any, y: Any = 1.5) -> Any:
    return {"sine": jnp.sin(x) * y, "pair": (x**2, [jnp.sum(x) * y])}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("argnums", [0, 1, -1, (0,), (1, 0), [0, 1], range(2)])
@pytest.mark.parametrize("name", ["grad", "jacobian", "value_and_grad"])
def test_argnums(setting: str, argnums: Any, name: str) -> None:
    args = jnp.array([0.3, 0.4]), 0.7
    theirs = {"jacobian": jax.jacrev}.get(name) or getattr(jax, name)
    expected = jax.jit(theirs(scalar, argnums=argnums))(*args)
    ours = getattr(bellhop, name)(scalar, argnums=argnums)
    assert_same(SETTINGS[setting](ours)(*args), expected)


@pytest.mark.parametrize("setting", SETTINGS)
def test_jacobian_of_pytrees(setting: str) -> None:
    x = jnp.array([0.3, 0.4])
    compiled = SETTINGS[setting](bellhop.jacobian(several, argnums=(0, 1)))
    expected = jax.jit(jax.jacfwd(several, argnums=(0, 1)))(x, 0.7)
    assert_same(compiled(x, 0.7), expected)


def test_gradient_has_the_structure_of_the_argument() -> None:
    def f(params: Any) -> Any:
        return params["a"] * jnp.sum(params["b"][0] ** 2)

    params = {"a": 2.0, "b": (jnp.array([1.0, 3.0]), 4.0)}
    assert_same(bellhop.qjit(bellhop.grad(f))(params), jax.grad(f)(params))


@pytest.mark.parametrize("name", ["grad", "jacobian", "value_and_grad"])
def test_decorator_with_options(name: str) -> None:
    @bellhop.qjit
    @getattr(bellhop, name)(argnums=1)
    def f(x: Any, y: Any) -> Any:
        return x * y**2

    assert_same(f(2.0, 3.0), (18.0, jnp.array(12.0)) if "value" in name else jnp.array(12.0))


def test_keywords_are_passed_on() -> None:
    assert_same(bellhop.qjit(bellhop.grad(scalar))(0.3, y=2.0), jax.grad(scalar)(0.3, y=2.0))


def test_higher_derivatives() -> None:
    f = lambda x: jnp.exp(x) * jnp.sin(x)
    ours = bellhop.qjit(bellhop.grad(bellhop.jacobian(bellhop.grad(f))))
    assert_same(ours(0.3), jax.grad(jax.grad(jax.grad(f)))(0.3))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64, jnp.bfloat16])
def test_precision_is_that_of_the_argument(dtype: Any) -> None:
    x = jnp.array(0.5, dtype)
    assert bellhop.qjit(bellhop.grad(lambda x: x * x))(x).dtype == dtype


def test_integers_beside_what_is_differentiated() -> None:
    f = lambda x, table: jnp.sum(x[table] ** 2)
    args = jnp.array([0.3, 0.4]), jnp.array([1, 1, 0])
    assert_same(bellhop.qjit(bellhop.grad(f))(*args), jax.grad(f)(*args))


def test_for_loop_is_differentiable() -> None:
    def power(x: Any) -> Any:
        return bellhop.for_loop(0, 5)(lambda i, y: y * x)(1.0)

    assert_same(bellhop.qjit(bellhop.grad(power))(1.3), jnp.array(5 * 1.3**4))


def test_name_and_documentation_are_kept() -> None:
    def energy(x: Any) -> Any:
        """Return the energy."""
        return x

    derivative = bellhop.grad(energy)
    assert derivative.__name__ == "grad_energy"
    assert derivative.__doc__ == "Return the energy."


WHERE = r"of 'f' \(.*test_derivatives\.py:\d+\)"


@pytest.mark.parametrize("name", ["grad", "jacobian", "value_and_grad"])
@pytest.mark.parametrize("argument", [3, jnp.array([1, 2]), True, {"a": (1.0, 2)}])
def test_integer_argument(name: str, argument: Any) -> None:
    def f(x: Any) -> Any:
        return 1.0

    message = rf"^{name} {WHERE}: argument 0 is of type (int64|bool), which has no derivative. "
    with pytest.raises(
        bellhop.DifferentiableCompileError, match=message + r"Pass floats \(1.0, not 1\), or choose"
    ):
        bellhop.qjit(getattr(bellhop, name)(f))(argument)


@pytest.mark.parametrize("name", ["grad", "jacobian", "value_and_grad"])
@pytest.mark.parametrize("result", [1, jnp.array([1, 2])])
def test_integer_result(name: str, result: Any) -> None:
    def f(x: Any) -> Any:
        return result

    message = rf"^{name} {WHERE}: the result "
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(getattr(bellhop, name)(f))(1.0)


@pytest.mark.parametrize("name", ["grad", "value_and_grad"])
@pytest.mark.parametrize("result", ["vector", "pair", "nothing"])
def test_result_that_is_not_one_scalar(name: str, result: str) -> None:
    def f(x: Any) -> Any:
        return {"vector": jnp.stack([x, x]), "pair": (x, x), "nothing": None}[result]

    message = rf"^{name} {WHERE}: the result must be one scalar, .* Use jacobian for other results"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(getattr(bellhop, name)(f))(1.0)


def test_argument_that_is_not_given() -> None:
    def f(x: Any, y: Any = 1.0) -> Any:
        return x * y

    message = (
        rf"^grad {WHERE} differentiates argument 1, but it is called with 1 positional argument\."
    )
    with pytest.raises(ValueError, match=message):
        bellhop.qjit(bellhop.grad(f, argnums=1))(1.0)


@pytest.mark.parametrize("name", ["grad", "jacobian", "value_and_grad"])
def test_something_that_is_not_a_function(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} takes a function, got 3 of type int.$"):
        getattr(bellhop, name)(3)


def test_complex_argument_of_a_real_function() -> None:
    f = lambda z: jnp.real(z * jnp.conj(z) + z)
    assert_same(bellhop.qjit(bellhop.grad(f))(1.0 + 2j), jax.grad(f)(1.0 + 2j))


@pytest.mark.parametrize("argument", ["text", None, object()])
def test_argument_that_is_no_number(argument: Any) -> None:
    def f(x: Any) -> Any:
        return 1.0

    if argument is None:
        # An empty pytree has an empty gradient.
        assert bellhop.grad(f)(None) is None
        return
    with pytest.raises(bellhop.DifferentiableCompileError, match=rf"^grad {WHERE}: argument 0 is"):
        bellhop.grad(f)(argument)


def test_complex_result() -> None:
    def f(x: Any) -> Any:
        return x * 1j

    with pytest.raises(
        bellhop.DifferentiableCompileError, match=rf"^jacobian {WHERE}: the result is of"
    ):
        bellhop.jacobian(f)(1.0)


def test_differences_of_differences_have_longer_steps():
    once = bellhop.grad(jnp.sin, method="fd")
    twice = bellhop.grad(once, method="fd")
    assert float(bellhop.qjit(twice)(0.5)) == pytest.approx(-np.sin(0.5), abs=1e-3)
    assert float(bellhop.qjit(bellhop.grad(twice, method="fd"))(0.5)) == pytest.approx(
        -np.cos(0.5), abs=3e-2
    )
