"""jvp, vjp and finite differences, against JAX's own derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

SETTINGS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda f: f}
X, Y = jnp.array([0.3, 0.4]), {"a": 0.7}


def several(x, y):
    return {"sine": jnp.sin(x) * y["a"], "pair": (jnp.sum(x) ** 2, y["a"] * x[0])}


def assert_close(actual, expected, atol=1e-12):
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert jnp.shape(one) == jnp.shape(other)
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", [None, "auto", "fd"])
def test_jvp_by_all_arguments(setting, method):
    tangents = [jnp.array([1.0, -2.0]), {"a": 0.5}]

    def ours(x, y):
        return bellhop.jvp(several, [x, y], tangents, argnums=[0, 1], method=method)

    expected = jax.jit(lambda *args: jax.jvp(several, args, tuple(tangents)))(X, Y)
    assert_close(SETTINGS[setting](ours)(X, Y), expected, 1e-6 if method == "fd" else 1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("method", [None, "fd"])
@pytest.mark.parametrize("argnums", [None, 0, 1, (1, 0), [1]])
def test_vjp(setting, method, argnums):
    value, pullback = jax.vjp(several, X, Y)
    weights = jax.tree.map(lambda leaf: 2.0 * jnp.ones_like(leaf) - leaf, value)
    slopes = pullback(weights)
    is_one = argnums is None or isinstance(argnums, int)
    expected = slopes[argnums or 0] if is_one else tuple(slopes[index] for index in argnums)
    result = SETTINGS[setting](
        lambda x, y: bellhop.vjp(several, [x, y], weights, argnums=argnums, method=method)
    )(X, Y)
    assert_close(result, (value, expected), 1e-6 if method == "fd" else 1e-12)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian"])
@pytest.mark.parametrize("argnums", [None, 1, (1, 0)])
def test_finite_differences(setting, name, argnums):
    function = several if name == "jacobian" else lambda x, y: jnp.sum(several(x, y)["sine"])
    exact, approximate = (
        SETTINGS[setting](getattr(bellhop, name)(function, argnums=argnums, **options))(X, Y)
        for options in ({}, {"method": "fd", "h": 1e-6})
    )
    assert_close(approximate, exact, 1e-5)
    # They are differences, and no derivative that somebody has got right.
    assert any(map(np.any, jax.tree.leaves(jax.tree.map(jnp.subtract, approximate, exact))))


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("dtype", "within"), [("float32", 2e-3), ("bfloat16", 0.2)])
def test_finite_differences_step_as_far_as_the_precision_wants(setting, dtype, within):
    def function(x, y):
        # A result of each precision, by an argument of each.
        return jnp.sin(x) * y.astype(x.dtype), y**2 * jnp.sin(x.astype(float))

    x, y = jnp.asarray(0.3, dtype), jnp.asarray(0.7)
    wide, narrow = jax.jacobian(function, argnums=(0, 1))(x.astype(float), y)
    slopes = SETTINGS[setting](bellhop.jacobian(function, argnums=(0, 1), method="fd"))(x, y)
    assert [[leaf.dtype for leaf in row] for row in slopes] == [[dtype, dtype], [float, float]]
    np.testing.assert_allclose(np.array(slopes, float), [wide, narrow], atol=within)
    # What is double all through keeps its short step.
    np.testing.assert_allclose(slopes[1][1], 2 * 0.7 * np.sin(float(x)), atol=1e-6)
    _, along = SETTINGS[setting](
        lambda x, y: bellhop.vjp(function, [x, y], [1.0, 1.0], argnums=(0, 1), method="fd")
    )(x, y)
    np.testing.assert_allclose(np.array(along, float), np.add(wide, narrow), atol=2 * within)
    given = SETTINGS[setting](bellhop.grad(jnp.square, method="fd", h=0.25))(x.astype(np.float32))
    np.testing.assert_allclose(given, 2 * float(x) + 0.25, rtol=1e-6)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("is_double", [True, False])
def test_finite_differences_of_circuits_in_single_precision(device, is_double):
    @qml.qnode(qml.device(device, wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    with jax.enable_x64(is_double):
        x = jnp.float32(0.3)
        value, slope = bellhop.qjit(bellhop.value_and_grad(circuit, method="fd"))(x)
        assert value.dtype == slope.dtype == np.float32
        np.testing.assert_allclose([value, slope], [np.cos(0.3), -np.sin(0.3)], atol=2e-3)


def test_finite_differences_need_no_derivative():
    sine = bellhop.pure_callback(np.sin, float)
    f = bellhop.qjit(bellhop.grad(lambda x, n: sine(x) * n, method="fd"))
    np.testing.assert_allclose(f(0.3, 2), 2 * np.cos(0.3), atol=1e-6)
    with pytest.raises(bellhop.DifferentiableCompileError):
        bellhop.qjit(bellhop.grad(sine))(0.3)


def test_products_through_circuits():
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(x, y):
        qml.RX(x, wires=0)
        qml.CRY(y, wires=[0, 1])
        return qml.expval(qml.Z(0)), qml.expval(qml.Z(1))

    @bellhop.qjit
    def products(x, y):
        return (
            bellhop.jvp(circuit, [x, y], [1.0, 2.0], argnums=[0, 1]),
            bellhop.vjp(circuit, [x, y], [1.0, 2.0], argnums=[0, 1]),
            bellhop.vjp(circuit, [x, y], [1.0, 2.0], argnums=[0, 1], method="fd"),
        )

    def exact(x, y):
        c = jnp.cos(x)
        return c, (1 + c) / 2 + (1 - c) / 2 * jnp.cos(y)

    (value, tangent), vjp, differences = products(0.3, 0.4)
    assert_close((value, tangent), jax.jvp(exact, (0.3, 0.4), (1.0, 2.0)), 1e-9)
    value, pullback = jax.vjp(exact, 0.3, 0.4)
    assert_close(vjp, (value, pullback((1.0, 2.0))), 1e-9)
    assert_close(differences, vjp, 1e-6)


def test_integer_arguments_and_results_are_passed_by():
    def f(x, n):
        return x**n, n

    value, tangent = bellhop.qjit(lambda x, n: bellhop.jvp(lambda y: f(y, n)[0], [x], [1.0]))(
        2.0, 3
    )
    assert (value, tangent) == (8.0, 12.0)
    value, slope = bellhop.qjit(lambda x, n: bellhop.vjp(f, [x, n], [1.0, 1], argnums=0))(2.0, 3)
    assert (value, slope) == ((8.0, 3), 12.0)


WRONG = {
    "number of tangents": (
        lambda: bellhop.jvp(several, [X, Y], [1.0, 2.0]),
        TypeError,
        r"jvp of 'several' \(.*\): expected a sequence of 1 tangents",
    ),
    "shape of a tangent": (
        lambda: bellhop.jvp(several, [X, Y], [1.0]),
        TypeError,
        r"tangent of argument 0 has the shape \(\), expected \(2,\)",
    ),
    "structure of a tangent": (
        lambda: bellhop.jvp(several, [X, Y], [1.0], argnums=[1]),
        TypeError,
        "tangent of argument 1 has the structure",
    ),
    "type of a tangent": (
        lambda: bellhop.jvp(jnp.sin, [1.0], [1j]),
        TypeError,
        "tangent of argument 0 has the dtype complex128, expected float64",
    ),
    "number of cotangents": (
        lambda: bellhop.vjp(several, [X, Y], [1.0]),
        TypeError,
        "expected 3 cotangents, one for each array of the result, got 1",
    ),
    "shape of a cotangent": (
        lambda: bellhop.vjp(jnp.sin, [X], [1.0]),
        TypeError,
        r"cotangent of result 0 has the shape \(\)",
    ),
    "no sequence": (lambda: bellhop.vjp(jnp.sin, 1.0, [1.0]), TypeError, r"Write \[x\]"),
    "integer": (
        lambda: bellhop.jvp(jnp.sin, [1], [1.0]),
        bellhop.DifferentiableCompileError,
        "argument 0 is of type int64",
    ),
    "position": (lambda: bellhop.jvp(jnp.sin, [1.0], [1.0], argnums=1), ValueError, "argument 1"),
    "method": (
        lambda: bellhop.grad(jnp.sin, method="best"),
        ValueError,
        "grad: there is no method 'best', expected one of auto, fd",
    ),
    "step": (
        lambda: bellhop.grad(jnp.sin, method="fd", h=0),
        ValueError,
        "must be a finite number other than zero",
    ),
    "step of no method": (
        lambda: bellhop.vjp(jnp.sin, [1.0], [1.0], h=0.1),
        ValueError,
        "method='fd'",
    ),
}


@pytest.mark.parametrize(("call", "error", "message"), WRONG.values(), ids=WRONG)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
