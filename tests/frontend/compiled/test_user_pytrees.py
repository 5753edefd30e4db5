"""Classes of users as pytrees, whose constructors take arrays alone, as ``jax.jit`` has it."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


class Point:
    """Its constructor computes with what it is given."""

    def __init__(self, x, n):
        self.x = jnp.asarray(x) * 1.0
        self.n = jnp.asarray(n) + 0


jax.tree_util.register_pytree_node(
    Point, lambda point: ((point.x, point.n), None), lambda _, leaves: Point(*leaves)
)


def step(point):
    return Point(point.x * 2, point.n + 1)


def rounded(point):
    return float(point.x), int(point.n)


@pytest.mark.parametrize(
    "function",
    [
        step,
        lambda point: bellhop.for_loop(0, 3, 1)(lambda i, point: step(point))(point),
        lambda point: bellhop.while_loop(lambda point: point.x < 9)(step)(point),
        lambda point: bellhop.cond(point.n > 0, step, lambda point: point)(point),
        lambda point: bellhop.accelerate(step)(point),
        lambda point: bellhop.pure_callback(lambda point: step(point), bellhop.infer)(point),
        lambda point: bellhop.pure_callback(step, Point(0.0, 0))(point),
    ],
    ids=["call", "for_loop", "while_loop", "cond", "accelerate", "infer", "result"],
)
def test_a_user_class_goes_in_and_out(function):
    f = bellhop.qjit(function)
    point = Point(1.5, 2)
    with jax.disable_jit():
        expected = rounded(function(point))
    for _ in range(2):
        assert rounded(f(point)) == expected
    assert rounded(f.lower(point).compile()(point)) == expected
    assert f.compiled_function is not None
    assert str(bellhop.draw(function)(point))


def test_what_is_wrong_in_a_user_class_is_named():
    f = bellhop.qjit(lambda point, *, more: point.x)
    with pytest.raises(TypeError, match=r"argument more\['a'\] is "):
        f(Point(1.0, 2), more={"a": object()})


def test_annotations_may_be_examples_of_user_classes():
    @bellhop.qjit
    def f(point: Point(0.0, 0)):
        return step(point)

    assert "tensor<f64>" in f.mlir
    assert rounded(f(Point(1.0, 2))) == (2.0, 3)


class Floats(Point):
    def __init__(self, x):
        self.x = jnp.asarray(x) * 1.0


jax.tree_util.register_pytree_node(
    Floats, lambda point: ((point.x,), None), lambda _, leaves: Floats(*leaves)
)


@pytest.mark.parametrize("method", ["auto", "fd"])
def test_derivatives_by_a_user_class(method):
    def cube(point):
        return point.x**3

    point = Floats(2.0)
    for derivative in (bellhop.grad, bellhop.jacobian):
        slope = bellhop.qjit(derivative(cube, method=method))(point)
        assert float(slope.x) == pytest.approx(12, rel=1e-5)


def test_rules_of_callbacks_get_a_user_class():
    @bellhop.pure_callback
    def cube(point) -> float:
        return float(point.x) ** 3

    @cube.fwd
    def _(point):
        return cube(point), point

    @cube.bwd
    def _(point, ct):
        return Floats(3 * ct * point.x**2)

    @cube.jvp
    def _(primals, tangents):
        (point,), (tangent,) = primals, tangents
        return cube(point), 3 * point.x**2 * tangent.x

    assert float(bellhop.qjit(bellhop.grad(cube))(Floats(2.0)).x) == 12
    _, tangent = bellhop.qjit(lambda p: jax.jvp(cube, (p,), (p,)))(Floats(2.0))
    assert tangent == 24


def test_hamiltonians_are_arguments():
    @qml.qnode(qml.device("lightning.qubit", wires=2))
    def circuit(h):
        qml.RX(0.3, 0)
        return qml.expval(h)

    h = qml.Hamiltonian([0.5, 2.0], [qml.X(0) @ qml.Z(1), qml.Z(0)])
    f = bellhop.qjit(circuit)
    for _ in range(2):
        np.testing.assert_allclose(f(h), 2 * np.cos(0.3))
    slope = bellhop.qjit(bellhop.grad(circuit))(h)
    np.testing.assert_allclose(slope.coeffs, [0, np.cos(0.3)], atol=1e-12)
    wires = bellhop.qjit(lambda h: h)(h).wires
    assert list(wires) == [0, 1]


def test_stages_say_what_the_user_passed():
    lowered = bellhop.qjit(lambda x, *, y: x["a"] + y).lower({"a": 1.0}, y=2.0)
    given = ({"a": 1.0},), {"y": 2.0}
    assert lowered.in_tree == jax.tree.structure(given)
    assert [aval.shape for aval in jax.tree.leaves(lowered.in_avals)] == [(), ()]
