"""Callbacks that are linear: every derivative follows from the transpose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bellhop

MATRIX = np.array([[1.0, 2.0, 0.5], [3.0, 4.0, -1.0]])
TWO, THREE = (jax.ShapeDtypeStruct((n,), float) for n in (2, 3))


@pytest.fixture(params=["eager", "jit", "qjit"])
def run(request):
    return {"eager": lambda f: f, "jit": jax.jit, "qjit": bellhop.qjit}[request.param]


@pytest.fixture
def apply():
    """A callback that applies the matrix, with its transpose."""
    apply = bellhop.pure_callback(lambda x: MATRIX @ x, TWO)
    back = bellhop.pure_callback(lambda y: MATRIX.T @ y, THREE)
    apply.transpose(back)
    return apply


def test_first_derivatives(apply, run):
    x, v = np.arange(3.0), np.array([1.0, -1.0, 2.0])
    np.testing.assert_allclose(run(apply)(x), MATRIX @ x)
    np.testing.assert_allclose(run(jax.grad(lambda x: apply(x)[1]))(x), MATRIX[1])
    np.testing.assert_allclose(run(lambda x, v: jax.jvp(apply, (x,), (v,))[1])(x, v), MATRIX @ v)
    np.testing.assert_allclose(run(jax.jacfwd(apply))(x), MATRIX)
    np.testing.assert_allclose(run(jax.jacrev(apply))(x), MATRIX)
    transposed = run(lambda y: jax.linear_transpose(apply, x)(y)[0])
    np.testing.assert_allclose(transposed(np.ones(2)), MATRIX.T @ np.ones(2))


def test_second_derivatives_and_batches(apply, run):
    x = np.arange(3.0)
    hessian = run(jax.hessian(lambda x: (apply(x) ** 2).sum()))(x)
    np.testing.assert_allclose(hessian, 2 * MATRIX.T @ MATRIX)
    rows = np.arange(6.0).reshape(2, 3)
    gradients = run(jax.vmap(jax.grad(lambda x: (apply(x) ** 2).sum())))(rows)
    np.testing.assert_allclose(gradients, 2 * rows @ MATRIX.T @ MATRIX)


def test_solver_over_an_operator_of_python(run):
    operator = MATRIX @ MATRIX.T + np.eye(2)
    apply = bellhop.pure_callback(lambda x: operator @ x, TWO).transpose(symmetric=True)

    def solve(b):
        return jax.scipy.sparse.linalg.cg(apply, b, tol=1e-12)[0]

    b = jnp.array([1.0, -2.0])
    np.testing.assert_allclose(run(solve)(b), np.linalg.solve(operator, b))
    np.testing.assert_allclose(run(jax.jacrev(solve))(b), np.linalg.inv(operator))


def test_linear_in_one_argument():
    scale = bellhop.pure_callback(lambda a, x: a * (MATRIX @ x), TWO)
    back = bellhop.pure_callback(lambda a, y: a * (MATRIX.T @ y), THREE)

    @scale.transpose(argnums=1)
    def _(a, cotangent):
        return back(a, cotangent)

    x = np.arange(3.0)
    gradient = bellhop.qjit(jax.grad(lambda x: scale(2.0, x)[0]))(x)
    np.testing.assert_allclose(gradient, 2 * MATRIX[0])
    bellhop.debug.check_transpose(scale, 2.0, x, argnums=1)
    with pytest.raises(bellhop.DifferentiableCompileError, match="not declared linear"):
        bellhop.qjit(jax.grad(lambda a: scale(a, x)[0]))(2.0)


def test_complex_values_have_a_transpose_and_no_adjoint():
    matrix = np.array([[1.0, 2j], [0.5, 1 - 1j]])
    kind = jax.ShapeDtypeStruct((2,), complex)
    apply = bellhop.pure_callback(lambda x: matrix @ x, kind)
    apply.transpose(bellhop.pure_callback(lambda y: matrix.T @ y, kind))
    x = np.array([1.0, 1j])
    bellhop.debug.check_transpose(apply, x)
    [found] = bellhop.qjit(jax.vjp(apply, x)[1])(x)
    np.testing.assert_allclose(found, jax.vjp(lambda x: matrix @ x, x)[1](x)[0])


def test_check_transpose_of_a_map_from_real_to_complex_values():
    rfft = bellhop.pure_callback(np.fft.rfft, jax.ShapeDtypeStruct((3,), complex))
    rfft.transpose(lambda cotangent: jnp.real(jnp.fft.fft(cotangent, 4)))
    bellhop.debug.check_transpose(rfft, np.zeros(4))
    rfft = bellhop.pure_callback(np.fft.rfft, jax.ShapeDtypeStruct((3,), complex))
    rfft.transpose(lambda cotangent: jnp.real(jnp.fft.ifft(cotangent, 4)))
    with pytest.raises(AssertionError, match="the transpose does not fit"):
        bellhop.debug.check_transpose(rfft, np.zeros(4))


def test_several_linear_arguments_in_a_pytree():
    add = bellhop.pure_callback(lambda x: x["a"] + 2 * x["b"], float)
    add.transpose(lambda y: {"a": y, "b": 2 * y})
    assert bellhop.qjit(jax.grad(add))({"a": 1.0, "b": 2.0}) == {"a": 1.0, "b": 2.0}


def test_check_transpose_finds_what_is_wrong():
    wrong = bellhop.pure_callback(lambda x: np.tril(np.ones((3, 3))) @ x, THREE)
    wrong.transpose(symmetric=True)
    with pytest.raises(AssertionError, match="the transpose does not fit"):
        bellhop.debug.check_transpose(wrong, np.zeros(3))
    square = bellhop.pure_callback(lambda x: x * x, THREE).transpose(symmetric=True)
    with pytest.raises(AssertionError, match="the function is not linear"):
        bellhop.debug.check_transpose(square, np.zeros(3))
    with pytest.raises(TypeError, match="the linear argument 0 has the dtype int64"):
        bellhop.debug.check_transpose(square, np.arange(3))
    with pytest.raises(ValueError, match="argnums has 1, but there is 1 argument, counted from 0"):
        bellhop.debug.check_transpose(square, np.zeros(3), argnums=1)


def test_one_derivative_alone():
    apply = bellhop.pure_callback(lambda x: x, float).transpose(symmetric=True)
    with pytest.raises(TypeError, match="a transpose and a jvp rule"):
        apply.jvp(lambda primals, tangents: None)
    square = bellhop.pure_callback(lambda x: x * x, float)
    square.fwd(lambda x: (square(x), x))
    with pytest.raises(TypeError, match="a transpose and a fwd rule"):
        square.transpose(symmetric=True)


def test_wrong_declarations():
    f = bellhop.pure_callback(lambda x, y: x, float)
    with pytest.raises(TypeError, match="a function and symmetric=True"):
        f.transpose(lambda y: y, symmetric=True)
    with pytest.raises(TypeError, match="with 2 linear arguments, expected 1"):
        f.transpose(symmetric=True)(1.0, 2.0)
    f.transpose(argnums=2)(lambda y: y)
    with pytest.raises(TypeError, match="with argnums=2, but is called with 2 arguments"):
        f(1.0, 2.0)
    with pytest.raises(TypeError, match="linear in all its arguments, but is called with none"):
        bellhop.pure_callback(lambda x=1.0: x, float).transpose(symmetric=True)()
    whole = bellhop.pure_callback(lambda x: x, int).transpose(symmetric=True)
    with pytest.raises(TypeError, match="expected a floating-point or complex type. Cast the"):
        whole(1)
    rounded = bellhop.pure_callback(round, int).transpose(symmetric=True)
    with pytest.raises(TypeError, match="the result has type int64.* Declare and return"):
        rounded(1.0)
    narrow = bellhop.pure_callback(lambda x: x[:2], TWO).transpose(symmetric=True)
    with pytest.raises(TypeError, match="is declared symmetric, but its argument has"):
        narrow(np.zeros(3))
    many = bellhop.pure_callback(lambda x: x, float)
    many.transpose(lambda y: (y, y))
    with pytest.raises(TypeError, match="returned 2 cotangents for 1 argument"):
        bellhop.qjit(jax.grad(many))(1.0)


def test_methods_are_linear_too():
    class Model:
        factor = 3.0

        @bellhop.pure_callback
        def scale(self, x) -> float:
            return self.factor * x

        @scale.transpose
        def _(self, cotangent):
            return self.scale(cotangent)

    assert bellhop.qjit(jax.grad(Model().scale))(1.0) == 3.0
