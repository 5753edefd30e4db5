"""PennyLane's transforms that differentiate by gates, against PennyLane with autograd."""

import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from pennylane import numpy as pnp
from tests.frontend.circuits.python_devices.counting_device import CountingDevice

import bellhop


def one(p):
    qml.RX(p[0], wires=0)
    qml.RY(p[1] * p[0], wires=1)
    qml.CNOT([0, 1])
    qml.RZ(p[2], wires=1)
    qml.CRX(p[0], wires=[0, 1])
    return qml.expval(qml.Z(0) @ qml.X(1))


def two(x, weights):
    qml.RX(x, wires=0)
    qml.RY(weights[0], wires=1)
    qml.CNOT([0, 1])
    qml.RZ(weights[1] * x, wires=1)
    qml.RX(0.3, wires=1)
    return qml.expval(qml.Z(0) @ qml.X(1)), qml.probs(wires=[0])


def on(device, function):
    return qml.QNode(function, qml.device(device, wires=3))


def assert_near(ours, theirs):
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            assert_near(our, their)
    else:
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


TRANSFORMS = {
    "param_shift": qml.gradients.param_shift,
    "finite_diff": qml.gradients.finite_diff,
    "hadamard_grad": lambda qnode: qml.gradients.hadamard_grad(qnode, aux_wire=2),
    "param_shift_hessian": qml.gradients.param_shift_hessian,
    "metric_tensor": lambda qnode: qml.metric_tensor(qnode, approx="block-diag"),
    "the whole metric_tensor": qml.metric_tensor,
    "adjoint_metric_tensor": qml.adjoint_metric_tensor,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values(name):
    values = bellhop.qjit(TRANSFORMS[name](on("lightning.qubit", one)))(jnp.array([0.1, 0.4, 0.7]))
    expected = TRANSFORMS[name](on("default.qubit", one))(pnp.array([0.1, 0.4, 0.7]))
    assert_near(values, expected)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_several_arguments_and_measurements(device):
    x, weights = 0.3, np.array([0.2, 0.4])
    both = qml.gradients.param_shift(on(device, two), argnums=[0, 1])
    expected = qml.gradients.param_shift(on("default.qubit", two))(pnp.array(x), pnp.array(weights))
    assert_near(bellhop.qjit(both)(x, jnp.array(weights)), expected)
    second = qml.gradients.param_shift(on(device, two), argnums=1)
    expected = qml.gradients.param_shift(on("default.qubit", two))(x, pnp.array(weights))
    assert_near(bellhop.qjit(second)(x, jnp.array(weights)), expected)


def test_derivatives_by_gates_alone():
    changed = qml.gradients.param_shift(on("lightning.qubit", one), hybrid=False)
    expected = qml.gradients.param_shift(on("default.qubit", one), hybrid=False)
    assert_near(
        bellhop.qjit(changed)(jnp.array([0.1, 0.4, 0.7])), expected(pnp.array([0.1, 0.4, 0.7]))
    )


def test_a_step_of_the_natural_gradient():
    """PennyLane's own optimiser for compiled programs; the reference is its one for autograd."""
    qnode = on("lightning.qubit", one)
    optimizer = qml.QNGOptimizerQJIT(stepsize=0.1)

    @bellhop.qjit
    def step(params):
        params, _, cost = optimizer.step_and_cost(qnode, params, optimizer.init(params))
        return params, cost

    params, cost = step(jnp.array([0.1, 0.4, 0.7]))
    reference = qml.QNGOptimizer(stepsize=0.1)
    expected = reference.step_and_cost(on("default.qubit", one), pnp.array([0.1, 0.4, 0.7]))
    assert_near((params, cost), expected)


@pytest.mark.filterwarnings("ignore:For multiple operations")
@pytest.mark.parametrize("name", ["matrix", "eigvals"])
def test_what_is_told_about_a_circuit(name):
    def function(x):
        qml.RX(x, wires=0)
        bellhop.for_loop(0, 2)(lambda i: qml.RZ(i * x, wires=1) and None)()
        return qml.expval(qml.Z(0))

    transform = getattr(qml, name)
    value = bellhop.qjit(transform(on("lightning.qubit", function)))(0.3)
    expected = transform(on("default.qubit", function))(0.3)
    if name == "eigvals":  # in the order in which LAPACK finds them
        value, expected = (np.sort_complex(np.round(each, 9)) for each in (value, expected))
    np.testing.assert_allclose(value, expected, atol=1e-8)


@pytest.mark.parametrize(
    ("transform", "function", "message"),
    [
        (
            qml.gradients.spsa_grad,
            one,
            "spsa_grad is not supported by bellhop: it draws random directions",
        ),
        (
            lambda qnode: qml.gradients.param_shift(qnode, argnums=2),
            one,
            r"a gradient transform has argnums \[2\], expected positions among the 1 ",
        ),
        (
            qml.gradients.param_shift,
            lambda p: (qml.RX(0.1, wires=0), qml.expval(qml.Z(0)))[1],
            "no gate parameter depends on these arguments",
        ),
        (
            qml.gradients.finite_diff,
            lambda p: qml.expval(qml.Hermitian(p[0] * np.eye(2), wires=0)),
            r"with respect to a gate parameter of shape \(2, 2\), expected a number",
        ),
    ],
)
def test_errors(transform, function, message):
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(transform(on("lightning.qubit", function)))(jnp.array([0.1, 0.4, 0.7]))


@pytest.mark.parametrize("transform", [qml.metric_tensor, qml.gradients.quantum_fisher])
@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_metrics_have_derivatives(transform, device):
    metric = transform(on(device, one))
    total = lambda p: jnp.sum(jnp.sin(metric(p)))
    at, step = np.array([0.1, 0.4, 0.7]), 1e-5 * np.eye(3)
    values = bellhop.qjit(total)
    differences = [(values(at + each) - values(at - each)) / 2e-5 for each in step]
    assert_near(bellhop.qjit(bellhop.grad(total))(at), np.array(differences))


def test_tapes_are_executed_in_the_program():
    def executed(x):
        gates = [qml.RX(x, 0), qml.RX(x, 0), qml.RY(x, 1)]
        first = qml.tape.QuantumScript(gates, [qml.expval(qml.Z(0)), qml.probs(wires=1)])
        second = qml.tape.QuantumScript([qml.RX(x, 0)], [qml.expval(qml.Y(0))])
        program = qml.CompilePipeline([qml.transforms.merge_rotations])
        device = qml.device("lightning.qubit", wires=2)
        return qml.execute([first, second], device, transform_program=program)

    assert_near(bellhop.qjit(executed)(0.4), executed(0.4))
    (slope, _), other = bellhop.qjit(bellhop.jacobian(executed))(0.4)
    assert_near((slope, other), (-2 * np.sin(0.8), -np.cos(0.4)))


def test_executed_tapes_keep_the_options_of_execute():
    """A cache that the user passes to `qml.execute` has an entry for the executed tape."""
    cache = {}

    def executed(x):
        tape = qml.tape.QuantumScript([qml.RX(x, 0)], [qml.expval(qml.Z(0))])
        return qml.execute([tape], CountingDevice(wires=1), cache=cache, cachesize=3)[0]

    assert_near(bellhop.qjit(executed)(0.4), np.cos(0.4))
    assert len(cache) == 1
