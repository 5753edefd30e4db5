"""Noise models on default.mixed, of circuits that are no tapes: against PennyLane uncompiled."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.in_program.mixed_circuits import assert_as_uncompiled, on_mixed

import bellhop

X, P, N = 0.4, 0.1, 3


def by_type(p: Any) -> qml.NoiseModel:
    """Noise behind rotations, and in front of them too; of CNOT on each wire; of measurements."""

    def around(op: Any, **options: Any) -> None:
        qml.PhaseDamping(options["strength"], op.wires)
        qml.apply(op)
        qml.ThermalRelaxationError(0.1 * op.parameters[0] ** 2, 2.0, 0.2, 0.6, op.wires)

    of_type = qml.noise.op_in(["RX", "RY"])
    read = {qml.noise.meas_eq(qml.expval): qml.noise.partial_wires(qml.BitFlip, p)}
    on_each = qml.noise.partial_wires(qml.DepolarizingChannel, p)
    return qml.NoiseModel({of_type: around, qml.noise.op_eq("CNOT"): on_each}, read, strength=p)


def by_wires(p: Any) -> qml.NoiseModel:
    """Noise of all that stands on a wire: gates, measurements, and what an outcome decides."""
    damping = qml.noise.partial_wires(qml.AmplitudeDamping, p)
    named = qml.BooleanFn(lambda op: op.name.startswith("Conditional"))
    read = {qml.noise.wires_in([1]): qml.noise.partial_wires(qml.PhaseFlip, 2 * p)}
    flip = lambda op, **_: qml.BitFlip(0.3 * p, op.wires[0])
    return qml.NoiseModel({qml.noise.wires_in([0]): damping, named: flip}, read)


def computed_length(x: Any, n: Any) -> Any:
    @qml.for_loop(0, n, 1)
    def layer(i: Any, angle: Any) -> Any:
        qml.RX(angle, 0)
        qml.CNOT([0, 1])
        qml.adjoint(qml.RY)(i * x, 1)
        qml.adjoint(lambda: [qml.QFT([0, 1]), qml.S(0)])()
        return angle + x

    layer(x)
    return qml.expval(qml.Z(0) @ qml.X(1)), qml.probs(wires=[0, 1])


def decided_by_outcomes(x: Any, n: Any) -> Any:
    qml.StatePrep(np.array([0.6, 0.8]), wires=0)
    qml.QFT([0, 1])
    one = bellhop.measure(0)
    qml.cond(one, qml.RX, qml.RY)(x, 1)
    other = bellhop.measure(1, reset=True)
    both = lambda: [qml.RX(x, 0), qml.CNOT([0, 1])]
    qml.cond(one & other, both, lambda: [qml.SWAP([0, 1]), qml.RX(x, 1)])()
    qml.RY(x, 1)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1)), qml.probs(op=one)


def decided_by_the_program(x: Any, n: Any) -> Any:
    @qml.for_loop(0, n, 1)
    def layer(i: Any) -> None:
        bellhop.cond(i % 2 == 1, lambda: qml.RX(x, 0), lambda: qml.RY(x, 1))()
        outcome = bellhop.measure(0)
        qml.cond(outcome, lambda: qml.RX(x, 1), lambda: qml.S(0))()

    layer()
    return qml.expval(qml.X(1)), qml.expval(qml.Z(0))


def while_it_holds(x: Any, n: Any) -> Any:
    @qml.while_loop(lambda i: i < n)
    def layer(i: Any) -> Any:
        qml.RX(x * i, 0)
        bellhop.ctrl(lambda: qml.RY(x, 1), control=0)()
        qml.CNOT([0, 1])
        return i + 1

    layer(0)
    return qml.expval(qml.Z(1))


@pytest.mark.parametrize("model", [by_type, by_wires])
@pytest.mark.parametrize(
    "circuit", [computed_length, decided_by_outcomes, decided_by_the_program, while_it_holds]
)
def test_as_uncompiled(circuit: Any, model: Any) -> None:
    node = qml.QNode(circuit, qml.device("default.mixed"))
    program = lambda x, n: qml.add_noise(node, model(P))(x, n)
    assert_as_uncompiled(bellhop.qjit(program), program, X, N)


def test_derivatives_by_noise() -> None:
    node = qml.QNode(computed_length, qml.device("default.mixed", wires=2))
    value = lambda p, n: qml.add_noise(node, by_type(p))(X, n)[0]
    slope = bellhop.qjit(lambda n: jax.jvp(lambda p: value(p, n), (P,), (1.0,))[1])(N)
    assert slope == pytest.approx((value(P + 1e-5, N) - value(P - 1e-5, N)) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("is_argument", [False, True], ids=["constant", "argument"])
def test_function_that_goes_on_a_tape_after_all_is_run_once(is_argument: bool) -> None:
    runs = []

    def circuit(x: Any) -> Any:
        runs.append(x)
        qml.RX(x, 0)
        with qml.allocate(1) as wires:
            qml.X(wires[0])
        return qml.expval(qml.Z(0))

    noise = {qml.noise.op_eq(qml.RX): qml.noise.partial_wires(qml.BitFlip, 0.1)}
    node = qml.QNode(circuit, qml.device("default.mixed", wires=2))
    node = qml.add_noise(node, qml.NoiseModel(noise))
    x = jnp.array(0.4)
    found = bellhop.qjit(node)(x) if is_argument else bellhop.qjit(lambda: node(x))()
    assert len(runs) == 1
    np.testing.assert_allclose(found, 0.8 * np.cos(0.4), atol=1e-9)


def damped(p: Any) -> qml.NoiseModel:
    damping = qml.noise.partial_wires(qml.AmplitudeDamping, p)
    return qml.NoiseModel({qml.noise.op_in(["RX", "CNOT"]): damping})


def test_computed_wires_and_transforms_behind() -> None:
    """Conditions on types know all; what merges gates comes after noise."""

    def circuit(x: Any, n: Any) -> Any:
        @qml.for_loop(0, n, 1)
        def layer(i: Any) -> None:
            qml.RX(x, wires=i)
            qml.CNOT([i, i + 1])
            qml.RX(x, wires=i)
            qml.RX(-x, wires=i)

        layer()
        return qml.expval(qml.Z(2))

    noisy = qml.transforms.merge_rotations(qml.add_noise(on_mixed(circuit, 4), damped(P)))
    assert_as_uncompiled(bellhop.qjit(noisy), noisy, X, N)


def test_shots() -> None:
    node = qml.QNode(decided_by_outcomes, qml.device("default.mixed"))
    noisy = qml.add_noise(node, by_type(P))
    drawn = bellhop.qjit(qml.set_shots(noisy, 20000), seed=3)(X, N)
    np.testing.assert_allclose(np.hstack(drawn), np.hstack(noisy(X, N)), atol=0.04)


def refused(body: Any, model: Any = by_wires, **options: Any) -> Any:
    def circuit(x: Any, n: Any) -> Any:
        body(x, n)
        return qml.expval(qml.Z(0))

    noisy = qml.add_noise(on_mixed(circuit, 3), model(P), **options)
    return lambda: bellhop.qjit(noisy)(X, N)


def carried(x: Any, n: Any) -> None:
    def step(_: Any, found: Any) -> Any:
        qml.cond(found, lambda: qml.X(0))()
        return bellhop.measure(0)

    bellhop.for_loop(0, n, 1)(step)(jnp.array(False))


def with_effect(x: Any, n: Any) -> None:
    def branch() -> None:
        bellhop.debug.print("{}", x)
        qml.X(0)

    bellhop.cond(bellhop.measure(0), branch)()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda x, n: bellhop.cond(bellhop.measure(0), lambda: [bellhop.measure(1), None][1])(),
            r"a measure \(.*\) in a conditional on a mid-circuit outcome is not",
        ),
        (
            lambda x, n: bellhop.cond(bellhop.measure(0), lambda: qml.QFT([0, 1]))(),
            "QFT depends on a mid-circuit measurement, so qml.add_noise cannot tell",
        ),
        (carried, "the condition of a cond may depend on mid-circuit outcomes through"),
        (with_effect, "a callback with an effect in a branch on a mid-circuit outcome"),
        (
            lambda x, n: (qml.pauli_measure("XZ", [0, 1]), None)[1],
            r"a pauli_measure \(.*\) is not supported with qml.add_noise",
        ),
        (
            lambda x, n: (bellhop.measure(0), qml.allocate(1)),
            "Allocate with qml.add_noise is supported only in",
        ),
    ],
    ids=["measured", "template", "carried", "effect", "word", "allocated"],
)
def test_what_has_no_noise_is_refused(body: Any, message: str) -> None:
    with pytest.raises(bellhop.CompileError, match=f"QNode 'circuit' .*{message}"):
        refused(body)()


def of_known_wires(p: Any) -> qml.NoiseModel:
    noise = lambda op, **_: [qml.BitFlip(p, wire) for wire in op.wires if wire in {0, 2}]
    return qml.NoiseModel({qml.noise.op_in(["RX"]): noise})


@pytest.mark.parametrize("model", [by_wires, of_known_wires])
@pytest.mark.parametrize("has_loop", [False, True])
def test_noise_that_asks_for_computed_wires_is_refused(has_loop: bool, model: Any) -> None:
    """A tracer is in no set of numbers, which is no error."""

    def body(x: Any, n: Any) -> None:
        bellhop.for_loop(0, n if has_loop else 1, 1)(lambda i: qml.RX(x, n - i))()

    with pytest.raises(bellhop.CompileError, match="the noise model may read the wires of RX"):
        refused(body, model)()


def test_noise_of_computed_wires_that_are_measured_is_refused() -> None:
    def circuit(n: Any) -> Any:
        qml.RX(X, 1)
        return qml.expval(qml.Z(n))

    with pytest.raises(bellhop.CompileError, match="the wires of the measurement .* are traced"):
        bellhop.qjit(qml.add_noise(on_mixed(circuit), by_wires(P)))(1)


def test_noise_of_a_computed_number_is_refused() -> None:
    large = qml.BooleanFn(lambda op: op.num_params == 1 and op.parameters[0] > 0.1)
    model = lambda p: qml.NoiseModel({large: qml.noise.partial_wires(qml.BitFlip, p)})
    body = lambda x, n: (bellhop.measure(1), qml.RX(x, 0))
    with pytest.raises(bellhop.CompileError, match="the noise model reads a traced value"):
        refused(body, model)()


def test_noise_behind_other_transforms_is_refused() -> None:
    """How much noise there is would depend on what is merged across a measurement."""
    with pytest.raises(bellhop.CompileError, match="or make one qml.add_noise the first"):
        refused(lambda x, n: (bellhop.measure(1), qml.RX(x, 0)), level="device")()
