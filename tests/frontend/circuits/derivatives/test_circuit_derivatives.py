"""Derivatives of programs with circuits: the adjoint method inside JAX's chain rule.

The reference is JAX through default.qubit, where every gate is differentiated by JAX, and
formulas that are held against it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pennylane as qml
import pytest

import bellhop

Circuits = Callable[[Callable[..., Any]], Callable[..., Any]]


def ansatz(x: Any, y: Any) -> None:
    qml.RX(x, wires=0)
    qml.RY(y, wires=1)
    qml.CRZ(x * y, wires=[0, 1])
    qml.RX(x, wires=1)


def energy(x: Any, y: Any) -> Any:
    ansatz(x, y)
    return qml.expval(qml.Y(0) @ qml.X(1))


def energies(x: Any, y: Any) -> Any:
    ansatz(x, y)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1) @ qml.Y(0))


def single(node: Circuits) -> Callable[..., Any]:
    return node(energy)


def one_parameter_many_times(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: node(energy)(x, x) * node(energy)(y, y)


def unused_argument(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: node(energy)(x, 0.4)


def classical_around(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: jnp.exp(node(energy)(jnp.sin(x) ** 2, x / y) + y) ** 3


def several_results(node: Circuits) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        a, b = node(energies)(x, y)
        return a * b + jnp.tanh(a - y)

    return f


def one_result_of_several(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: node(energies)(x, y)[1]


def circuits_in_sequence(node: Circuits) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        a, b = node(energies)(x, y)
        c = node(energy)(a + x, b)
        return node(energy)(c, a * y)

    return f


def coefficients(node: Circuits) -> Callable[..., Any]:
    def circuit(x: Any, y: Any) -> Any:
        qml.RX(x, wires=0)
        qml.RY(y, wires=1)
        return qml.expval(qml.Hamiltonian([x * y, y], [qml.Z(0), qml.X(1) @ qml.Y(0)]))

    return lambda x, y: node(circuit)(x, y) ** 2


def arrays_and_indexing(node: Circuits) -> Callable[..., Any]:
    def circuit(table: Any) -> Any:
        for i in range(3):
            qml.RX(table[i, 0], wires=0)
            qml.RY(table[0, i], wires=1)
            qml.CNOT(wires=[0, 1])
        return qml.expval(qml.Z(1))

    return lambda x, y: node(circuit)(jnp.outer(jnp.array([x, y, 1.0]), jnp.array([y, 2.0, x])))


def templates(node: Circuits) -> Callable[..., Any]:
    def circuit(weights: Any) -> Any:
        qml.StronglyEntanglingLayers(weights, wires=range(2))
        return qml.expval(qml.Z(0))

    return lambda x, y: node(circuit)(jnp.linspace(x, y, 12).reshape(2, 2, 3))


def in_scan(node: Circuits) -> Callable[..., Any]:
    def step(carried: Any, element: Any) -> Any:
        carried = node(energy)(carried, element)
        return carried, carried * element

    def f(x: Any, y: Any) -> Any:
        last, all_ = jax.lax.scan(step, x, jnp.array([0.1, 0.5, 0.9]) * y)
        return last + jnp.sum(all_)

    return f


def in_scan_of_constants(node: Circuits) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        step = lambda carried, _: (carried * node(energy)(x, y), None)
        return jax.lax.scan(step, 1.0, None, length=3)[0]

    return f


def in_cond(node: Circuits) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> Any:
        return jax.lax.cond(x > y, lambda: node(energy)(x, y), lambda: y * node(energy)(y, y))

    return f


def in_switch(node: Circuits) -> Callable[..., Any]:
    branches = [
        lambda x, y: node(energy)(x, y),
        lambda x, y: x * y,
        lambda x, y: node(energies)(x, y)[0],
    ]
    return lambda x, y: jax.lax.switch((x < y).astype(int) * 2, branches, x, y)


def in_checkpoint(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: jax.checkpoint(lambda x: jnp.sin(node(energy)(x, y)))(x * y)


def in_jit(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: jax.jit(lambda x: node(energy)(x, y) ** 2)(x * y)


def in_map(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: jnp.prod(
        jax.lax.map(lambda z: node(energy)(z, y), jnp.array([0.1, 0.5]) * x)
    )


def in_vmap(node: Circuits) -> Callable[..., Any]:
    return lambda x, y: jnp.prod(
        jax.vmap(node(energy), in_axes=(0, None))(jnp.array([0.1, 0.5]) * x, y)
    )


def in_custom_vjp(node: Circuits) -> Callable[..., Any]:
    @jax.custom_vjp
    def doubled(x: Any, y: Any) -> Any:
        return node(energy)(x, y)

    doubled.defvjp(
        lambda x, y: (node(energy)(x, y), (x, y)),
        lambda saved, g: (2 * g * node(energy)(*saved), g),
    )
    return lambda x, y: doubled(x * y, y)


PROGRAMS = [
    single,
    one_parameter_many_times,
    unused_argument,
    classical_around,
    several_results,
    one_result_of_several,
    circuits_in_sequence,
    coefficients,
    arrays_and_indexing,
    templates,
    in_scan,
    in_scan_of_constants,
    in_cond,
    in_switch,
    in_checkpoint,
    in_jit,
    in_map,
    in_vmap,
    in_custom_vjp,
]


def on_lightning(function: Callable[..., Any]) -> Callable[..., Any]:
    return qml.QNode(function, qml.device("lightning.qubit", wires=2))


def on_default_qubit(function: Callable[..., Any]) -> Callable[..., Any]:
    return qml.QNode(function, qml.device("default.qubit", wires=2), interface="jax")


def formulas(x: Any, y: Any) -> Any:
    """Compute the energies with matrices, as the reference that JAX compiles quickly."""
    half = x / 2
    turn = jnp.array([[jnp.cos(half), -1j * jnp.sin(half)], [-1j * jnp.sin(half), jnp.cos(half)]])
    state = jnp.outer(turn[:, 0], jnp.array([jnp.cos(y / 2), jnp.sin(y / 2)]))
    phase = jnp.exp(0.5j * x * y)
    state = (state * jnp.array([[1, 1], [1 / phase, phase]])) @ turn.T
    observed = jnp.array([[0, -1j], [1j, 0]]) @ state @ jnp.array([[0, 1], [1, 0]])
    z = jnp.sum(jnp.abs(state) ** 2 * jnp.array([[1], [-1]]))
    return z, jnp.real(jnp.vdot(state, observed))


def by_formula(function: Callable[..., Any]) -> Callable[..., Any]:
    if function is energies:
        return formulas
    return (lambda x, y: formulas(x, y)[1]) if function is energy else on_default_qubit(function)


@pytest.mark.parametrize("function", [energy, energies])
def test_formulas_are_the_circuits(assert_close: Any, reference: Any, function: Any) -> None:
    for point in ((0.4, 0.7), (-1.3, 2.1), (0.0, 0.9), (1.1, -0.2)):
        assert_close(by_formula(function)(*point), reference(function)(*point))


@pytest.mark.parametrize("program", PROGRAMS)
def test_value_and_gradient(assert_close: Any, program: Any) -> None:
    compiled = bellhop.qjit(bellhop.value_and_grad(program(on_lightning), argnums=(0, 1)))
    expected = jax.jit(jax.value_and_grad(program(by_formula), argnums=(0, 1)))
    for point in ((0.4, 0.7), (0.7, 0.4)):
        assert_close(compiled(*point), expected(*point))


TRANSFORMATIONS = {
    "jvp": lambda f: lambda x: jax.jvp(f, (x, 0.3), (0.8, 0.1)),
    "vjp": lambda f: lambda x: jax.vjp(f, x, 0.3)[1](0.9),
    "jacfwd": lambda f: lambda x: jax.jacfwd(f, argnums=(0, 1))(x, 0.3),
    "jacrev": lambda f: lambda x: jax.jacrev(f, argnums=(0, 1))(x, 0.3),
    "linearize": lambda f: lambda x: jax.linearize(lambda x: f(x, 0.3), x)[1](0.6),
    "vmap": lambda f: lambda x: jax.vmap(f)(x + jnp.arange(3.0), x * jnp.arange(3.0)),
    "vmap of one": lambda f: lambda x: jax.vmap(f, (0, None))(x + jnp.arange(3.0), x),
    "vmap of vmap": lambda f: (
        lambda x: jax.vmap(jax.vmap(f, (0, None)), (None, 0))(
            x + jnp.arange(3.0), x * jnp.arange(2.0)
        )
    ),
    "vmap of grad": lambda f: lambda x: jax.vmap(jax.grad(f))(x + jnp.arange(3.0), jnp.ones(3)),
    "grad of vmap": lambda f: jax.grad(
        lambda x: jnp.prod(jax.vmap(f, (0, None))(x + jnp.arange(3.0), x))
    ),
    "grad of scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(lambda c, e: (f(c, e), None), x, x * jnp.arange(3.0))[0]
    ),
    "vmap of grad of scan": lambda f: (
        lambda x: jax.vmap(
            jax.grad(lambda x: jax.lax.scan(lambda c, e: (f(c, e), None), x, jnp.arange(3.0))[0])
        )(x + jnp.arange(3.0))
    ),
    "while": lambda f: (
        lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], 0.3)), (0, x))
    ),
    "jvp of while": lambda f: (
        lambda x: jax.jvp(
            lambda x: jax.lax.while_loop(
                lambda c: c[0] < 3, lambda c: (c[0] + 1, f(c[1], 0.3)), (0, x)
            )[1],
            (x,),
            (1.0,),
        )
    ),
    "vmap of cond": lambda f: (
        lambda x: jax.vmap(lambda y: jax.lax.cond(y > 0.5, lambda: f(y, x), lambda: y))(
            x + jnp.arange(3.0)
        )
    ),
    "grad of checkpointed scan": lambda f: jax.grad(
        lambda x: jax.lax.scan(
            jax.checkpoint(lambda c, e: (jnp.sin(f(c, e)), None)), x, jnp.arange(3.0)
        )[0]
    ),
    "has_aux": lambda f: jax.grad(lambda x: (f(x, 0.3), jnp.sin(x)), has_aux=True),
}
SETTINGS = {
    "around qjit": lambda transform, f: transform(bellhop.qjit(f)),
    "around qjit, under jit": lambda transform, f: jax.jit(transform(bellhop.qjit(f))),
    "qjit of qjit": lambda transform, f: bellhop.qjit(transform(bellhop.qjit(f))),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformation_inside_qjit(assert_close: Any, name: str) -> None:
    transform = TRANSFORMATIONS[name]
    expected = jax.jit(transform(by_formula(energy)))(0.4)
    assert_close(bellhop.qjit(transform(on_lightning(energy)))(0.4), expected)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["jvp", "vjp", "vmap of grad", "while"])
def test_transformation_around_qjit(assert_close: Any, name: str, setting: str) -> None:
    transform = TRANSFORMATIONS[name]
    expected = jax.jit(transform(by_formula(energy)))(0.4)
    assert_close(SETTINGS[setting](transform, on_lightning(energy))(0.4), expected)


@pytest.mark.large
def test_gradient_outside_qjit(assert_close: Any) -> None:
    expected = jax.grad(by_formula(energy), argnums=(0, 1))(0.4, 0.7)
    assert_close(bellhop.grad(on_lightning(energy), argnums=(0, 1))(0.4, 0.7), expected)
    compiled = jax.jit(bellhop.grad(on_lightning(energy), argnums=(0, 1)))
    assert_close(compiled(0.4, 0.7), expected)


def test_pytree_arguments(assert_close: Any) -> None:
    def circuit(params: Any) -> Any:
        ansatz(params["a"][0], params["b"][1])
        qml.RX(params["b"][0], wires=0)
        return {"z": qml.expval(qml.Z(0)), "x": [qml.expval(qml.X(1))]}

    params = {"a": (0.3,), "b": jnp.array([0.2, 0.5]), "unused": 1.0}
    compiled = bellhop.qjit(bellhop.jacobian(on_lightning(circuit)))
    assert_close(compiled(params), jax.jit(jax.jacfwd(on_default_qubit(circuit)))(params))


def test_results_of_many_measurements(assert_close: Any) -> None:
    def circuit(x: Any) -> Any:
        for wire in range(2):
            qml.RX(x[wire], wires=wire)
            qml.CRY(x[2], wires=[wire, 1 - wire])
        return [qml.expval(op(wire)) for op in (qml.X, qml.Y, qml.Z) for wire in range(2)]

    x = jnp.array([0.3, 0.9, -0.4])
    compiled = bellhop.qjit(bellhop.jacobian(on_lightning(circuit)))
    assert_close(compiled(x), jax.jit(jax.jacfwd(on_default_qubit(circuit)))(x))


@pytest.mark.parametrize(
    "gate",
    [
        lambda: qml.Rot(0.1, 0.2, 0.3, wires=0),
        lambda: qml.CRot(0.1, 0.2, 0.3, wires=[1, 0]),
        lambda: qml.ctrl(qml.Rot(0.1, 0.2, 0.3, wires=0), control=1),
        lambda: qml.PauliRot(0.4, "XY", wires=[0, 1]),
        lambda: qml.PSWAP(0.3, wires=[0, 1]),
        lambda: qml.PCPhase(0.3, dim=1, wires=[0, 1]),
        lambda: qml.QubitUnitary(qml.RY.compute_matrix(0.3), wires=0),
    ],
    ids=["Rot", "CRot", "controlled Rot", "PauliRot", "PSWAP", "PCPhase", "QubitUnitary"],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_derivative_beside_a_constant_gate(gate: Any, is_first: bool) -> None:
    def circuit(x: Any) -> Any:
        if is_first:
            gate()
        qml.Hadamard(1)
        qml.RX(x, 0)
        qml.CNOT([0, 1])
        qml.RY(2 * x, 1)
        gate()
        return qml.expval(qml.Z(0) @ qml.X(1))

    lightning = qml.QNode(circuit, qml.device("lightning.qubit", wires=2))
    reference = qml.QNode(circuit, qml.device("default.qubit", wires=2))
    expected = float(qml.grad(reference)(qml.numpy.array(0.3, requires_grad=True)))
    assert abs(expected) > 1e-3
    derivative = float(bellhop.qjit(bellhop.grad(lightning))(0.3))
    assert derivative == pytest.approx(expected, abs=1e-9)
