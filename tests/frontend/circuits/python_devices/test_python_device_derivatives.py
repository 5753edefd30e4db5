"""Derivatives of circuits on devices that are Python objects: the device's, or parameter shifts."""

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.python_devices.counting_device import (
    CalledMixed,
    CountingDevice,
    DifferentiatingDevice,
)

import bellhop

ANGLES = jnp.array([0.3, 0.5])


def circuit(x, y):
    qml.RX(x, 0)
    qml.CRY(y, [0, 1])
    return qml.expval(qml.Z(1)), qml.probs([0])


def expectation(x, y):
    qml.RX(x, 0)
    qml.CRY(y, [0, 1])
    return qml.expval(qml.Z(1))


def reference(function):
    return qml.QNode(function, qml.device("default.qubit", wires=2))


def close(ours, theirs):
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-7), ours, theirs)


@pytest.mark.parametrize("method", ["best", "parameter-shift", "finite-diff", "hadamard"])
def test_jacobian(method):
    options = {"gradient_kwargs": {"aux_wire": 2}} if method == "hadamard" else {}
    device = CalledMixed(wires=3)
    qnode = qml.QNode(circuit, device, diff_method=method, **options)
    ours = bellhop.qjit(jax.jacobian(qnode, argnums=(0, 1)))(0.3, 0.5)
    close(ours, jax.jit(jax.jacfwd(reference(circuit), argnums=(0, 1)))(0.3, 0.5))


def test_gradient_by_amplitudes_that_are_normalized():
    """No numbers are zeros, which have no norm: NumPy would warn of it."""

    def prepared(features):
        qml.AmplitudeEmbedding(features, wires=[0, 1], normalize=True)
        return qml.expval(qml.Z(0))

    features = jnp.array([0.6, 0.1, 0.2, 0.8])
    slope = bellhop.qjit(jax.grad(qml.QNode(prepared, CountingDevice(wires=2))))(features)
    close(slope, jax.jit(jax.grad(reference(prepared)))(features))


def test_only_what_is_differentiated_is_shifted():
    device = CountingDevice(wires=2)

    def prepared(features, x):
        qml.StatePrep(features, wires=[0, 1])
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    features = jnp.array([0.6, 0.0, 0.0, 0.8])
    slope = bellhop.qjit(jax.grad(qml.QNode(prepared, device), argnums=1))(features, 0.3)
    assert device.batches == [1, 2]
    np.testing.assert_allclose(slope, -(0.36 - 0.64) * np.sin(0.3), atol=1e-10)


def test_gradient_of_a_batch_is_two_executions():
    device = CountingDevice(wires=2)
    slopes = jax.vmap(jax.grad(qml.QNode(expectation, device)), in_axes=(0, None))
    ours = bellhop.qjit(slopes)(ANGLES, 0.5)
    # RX takes two shifts; one batch of values, one of shifted values.
    assert device.batches == [2, 4]
    theirs = jax.vmap(jax.grad(reference(expectation)), in_axes=(0, None))
    close(ours, jax.jit(theirs)(ANGLES, 0.5))


def test_derivative_of_the_device_itself():
    device = DifferentiatingDevice(wires=2)
    ours = bellhop.qjit(jax.vmap(jax.value_and_grad(qml.QNode(expectation, device), (0, 1))))
    values = ours(ANGLES, ANGLES)
    assert (device.batches, device.differentiated) == ([2], [2])
    theirs = jax.vmap(jax.value_and_grad(reference(expectation), (0, 1)))
    close(values, jax.jit(theirs)(ANGLES, ANGLES))


def test_forward_mode_and_classical_processing():
    qnode = qml.QNode(expectation, CountingDevice(wires=2))
    function = lambda q: lambda x: jnp.sin(q(x**2, 3 * x)) * x
    ours = bellhop.qjit(lambda x: jax.jvp(function(qnode), (x,), (1.0,)))(0.4)
    close(ours, jax.jit(lambda x: jax.jvp(function(reference(expectation)), (x,), (1.0,)))(0.4))


@pytest.mark.hessian
@pytest.mark.quick
@pytest.mark.parametrize("device", [CountingDevice, DifferentiatingDevice])
def test_hessian(device):
    qnode = qml.QNode(expectation, device(wires=2))
    ours = bellhop.qjit(jax.hessian(qnode, argnums=(0, 1)))(0.3, 0.5)
    close(ours, jax.jit(jax.hessian(reference(expectation), argnums=(0, 1)))(0.3, 0.5))


@pytest.mark.hessian
@pytest.mark.quick
def test_second_derivatives_of_several_results():
    """PennyLane's own are zero without a word."""

    def several(x, y):
        qml.RX(x, wires=0)
        qml.CRY(x * y, wires=[0, 1])
        return qml.expval(qml.Z(0)), qml.expval(qml.Z(1)), qml.probs(wires=[1])

    qnode = qml.QNode(several, CountingDevice(wires=2))
    ours = bellhop.qjit(jax.hessian(qnode, argnums=(0, 1)))(0.3, 0.5)
    theirs = jax.jit(jax.hessian(reference(several), argnums=(0, 1)))(0.3, 0.5)
    for mine, one in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        close(mine, one)


@pytest.mark.hessian
def test_mixed_second_derivative_of_a_batch():
    qnode = qml.QNode(expectation, CountingDevice(wires=2))
    mixed = lambda q: jax.vmap(jax.grad(jax.grad(q, 0), 1), in_axes=(0, None))
    close(
        bellhop.qjit(mixed(qnode))(ANGLES, 0.5),
        jax.jit(mixed(reference(expectation)))(ANGLES, 0.5),
    )


def test_channel_and_observable():
    @qml.qnode(CalledMixed(wires=1))
    def noisy(p, c):
        qml.RX(0.4, 0)
        qml.DepolarizingChannel(p, 0)
        return qml.expval(c * qml.Z(0))

    slopes = bellhop.qjit(jax.grad(noisy, argnums=(0, 1)))(0.1, 2.0)
    expected = -2 * 4 / 3 * np.cos(0.4), (1 - 0.4 / 3) * np.cos(0.4)
    np.testing.assert_allclose(slopes, expected, atol=1e-10)


def test_branch_and_measurement_in_the_middle():
    @qml.qnode(CalledMixed(wires=3))
    def chosen(x):
        bellhop.cond(x > 0.5, lambda: qml.RX(x, 0), lambda: qml.RY(2 * x, 0))()
        m = bellhop.measure(0)
        bellhop.cond(m, lambda: qml.RX(x, 1))()
        return qml.expval(qml.Z(1))

    def expected(x, angle):
        return (1 + np.cos(angle)) / 2 + (1 - np.cos(angle)) / 2 * np.cos(x)

    found, h = bellhop.qjit(jax.grad(chosen)), 1e-5
    for x, angle in ((0.3, 2.0), (0.8, 1.0)):
        slope = (expected(x + h, angle * (x + h)) - expected(x - h, angle * (x - h))) / (2 * h)
        np.testing.assert_allclose(found(x), slope, atol=1e-9)


def test_derivative_with_shots_is_of_fresh_samples():
    @qml.set_shots(20000)
    @qml.qnode(CalledMixed(wires=1, seed=3))
    def sampled(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(bellhop.qjit(jax.grad(sampled))(0.4), -np.sin(0.4), atol=0.03)


def purity(x, y):
    qml.RX(x, 0)
    qml.RX(y, 1)
    return qml.purity([0])


REFUSED = {
    "backprop": (
        {"diff_method": "backprop"},
        expectation,
        "diff_method='backprop', which does not support default.mixed, as this device runs",
    ),
    "none": (
        {"diff_method": None},
        expectation,
        "the QNode has diff_method=None. Set diff_method='best'.",
    ),
    "purity": (
        {},
        purity,
        "returns PurityMP and is differentiated, which is not supported on default.mixed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_no_derivative(name):
    options, function, message = REFUSED[name]
    qnode = qml.QNode(function, CalledMixed(wires=2), **options)
    with pytest.raises(bellhop.DifferentiableCompileError, match=r"the QNode '\w+' \(") as raised:
        bellhop.qjit(jax.grad(qnode))(0.3, 0.5)
    assert message in str(raised.value)


def test_method_that_the_device_has_not_with_shots():
    device = DifferentiatingDevice(wires=2)
    qnode = qml.set_shots(qml.QNode(expectation, device, diff_method="device"), 10)
    message = (
        "with diff_method='device', which .* does not support for this circuit. Use diff_method"
    )
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.grad(qnode))(0.3, 0.5)


def test_second_derivative_of_what_differentiates_once():
    qnode = qml.QNode(expectation, DifferentiatingDevice(wires=2), diff_method="device")
    message = "differentiated 2 times, and diff_method='device' supports first derivatives only"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.hessian(qnode))(0.3, 0.5)


def damped(x, y):
    qml.RX(x, 0)
    qml.AmplitudeDamping(y, 0)
    return qml.expval(qml.Z(0))


def test_derivatives_that_pennylane_would_get_wrong():
    qnode = qml.QNode(damped, CalledMixed(wires=1))
    message = "AmplitudeDamping has no parameter-shift rule: PennyLane would take finite"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.hessian(qnode, argnums=1))(0.3, 0.2)
    message = "the circuit is differentiated 3 times, expected at most 2 times on default"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.grad(jax.grad(jax.grad(qnode))))(0.3, 0.2)
    # 1 - 2 (1 - y) sin(x / 2)**2 = y + (1 - y) cos(x)
    close(bellhop.qjit(jax.grad(jax.grad(qnode)))(0.3, 0.2), -0.8 * np.cos(0.3))


def test_without_compiling():
    qnode = qml.QNode(damped, CalledMixed(wires=1))
    with jax.disable_jit():
        close(bellhop.qjit(bellhop.grad(qnode))(0.3, 0.2), -0.8 * np.sin(0.3))


def test_derivative_by_a_complex_number():
    @qml.qnode(CalledMixed(wires=1))
    def unitary(x):
        qml.QubitUnitary(jnp.diag(jnp.exp(jnp.array([1j, -1j]) * x)), 0)
        return qml.expval(qml.X(0))

    message = "with respect to complex parameters of operations, which is not supported on"
    with pytest.raises(bellhop.DifferentiableCompileError, match=message):
        bellhop.qjit(jax.grad(unitary))(0.3)


def test_shots_through_measurements_in_the_middle():
    """PennyLane alone takes finite differences of samples where an operation is conditional."""

    @qml.set_shots(2000)
    @qml.qnode(qml.device("reference.qubit", wires=2))
    def conditional(x):
        qml.RX(x, 0)
        bellhop.cond(bellhop.measure(0), lambda: qml.RX(x, 1))()
        return qml.expval(qml.Z(1))

    slope = bellhop.qjit(bellhop.grad(conditional), seed=1)(0.8)
    # By x of cos(x / 2)**2 + sin(x / 2)**2 cos(x).
    np.testing.assert_allclose(slope, -np.sin(0.8) * (1 - np.cos(0.8)), atol=0.1)


@pytest.mark.parametrize("change", [qml.adjoint, lambda op: qml.ctrl(op, 0)])
def test_gradient_of_a_changed_product(change):
    def changed(x):
        qml.Hadamard(0)
        change(qml.prod(qml.RX(x, 1), qml.RY(2 * x, 1)))
        return qml.expval(qml.Z(1))

    ours = bellhop.qjit(bellhop.grad(qml.QNode(changed, CountingDevice(wires=2))))(0.3)
    close(ours, jax.grad(reference(changed))(0.3))
