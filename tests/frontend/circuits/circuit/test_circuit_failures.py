"""What a circuit that fails raises, wherever its program is."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop


def flip(wire: Any) -> Any:
    qml.X(wire)
    return qml.expval(qml.Z(0))


CIRCUIT = bellhop.qjit(qml.QNode(flip, qml.device("lightning.qubit", wires=2)))
PROGRAMS = {
    "qjit": CIRCUIT,
    "plain jit": jax.jit(lambda wire: 2 * CIRCUIT(wire)),
    "region": bellhop.qjit(lambda wire: bellhop.accelerate(CIRCUIT)(wire)),
    "eager": jax.vmap(CIRCUIT),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_error_of_a_circuit(name: str) -> None:
    """It is the same on the first call as on cached ones, and harms none after it."""
    program = PROGRAMS[name]
    wrap = jnp.atleast_1d if name == "eager" else lambda wire: wire
    message = r"^the QNode 'flip' \(.*test_circuit_failures.py:\d+\): .*'PauliX' on wires \[{}\] "
    for wire in (2, 3, -4):
        with pytest.raises(bellhop.CircuitError, match=message.format(wire)):
            jax.block_until_ready(program(wrap(wire)))
        program(wrap(1))


def in_a_loop(wire: Any) -> Any:
    bellhop.for_loop(0, 2, 1)(lambda i: (qml.X(wire + i), None)[1])()


def under_a_condition(wire: Any) -> Any:
    bellhop.cond(wire != 0)(lambda: (qml.X(wire), None)[1])()


USES: dict[str, Callable[[Any], Any]] = {
    "gate": qml.X,
    "control": lambda wire: qml.CNOT([wire, 0]),
    "idle wire of a gate": lambda wire: qml.PauliRot(0.3, "XI", wires=[0, wire]),
    "loop": in_a_loop,
    "condition": under_a_condition,
    "measurement": lambda wire: (bellhop.measure(wire), None)[1],
}


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "null.qubit"])
@pytest.mark.parametrize("use", USES)
def test_computed_wires_on_every_device(device: str, use: str) -> None:
    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=3))
    def circuit(wire: Any) -> Any:
        USES[use](wire)
        return qml.expval(qml.Z(2))

    circuit(1)
    for wire in (-1, 3, 2**40):
        message = (
            r"^the QNode 'circuit' \(.*: .*test_circuit_failures.py:\d+\): .*is not in the circ"
        )
        with pytest.raises(bellhop.CircuitError, match=message):
            circuit(wire)
    circuit(1)


def test_wires_of_what_does_not_happen() -> None:
    """A branch that a batch does not take, and an outcome that does not come, raise nothing."""

    @qml.qnode(qml.device("default.qubit", wires=2))
    def circuit(wire: Any) -> Any:
        under_a_condition(wire)
        outcome = bellhop.measure(1)
        qml.X(5 * outcome)
        return qml.expval(qml.Z(0))

    program = bellhop.qjit(jax.vmap(circuit))
    np.testing.assert_array_equal(program(jnp.array([0, 0])), [-1, -1])
    with pytest.raises(bellhop.CircuitError, match="wire 5 is not in the circuit"):
        program(jnp.array([0, 1]))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
@pytest.mark.parametrize("qubits", [40, 62])
def test_states_that_do_not_fit(device: str, qubits: int) -> None:
    circuit = qml.QNode(lambda x: (qml.RX(x, 0), qml.state())[1], qml.device(device, wires=qubits))
    message = rf"QNode '<lambda>' \(.*{qubits} qubits.* of memory, and this process may have \d"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(circuit)(0.3)


def test_state_that_does_not_fit_and_a_number() -> None:
    """The compiled program is refused before XLA or the device allocate anything."""
    circuit = qml.QNode(flip, qml.device("lightning.qubit", wires=40))
    message = r"^the QNode 'flip' \(.*: 40 qubits take .* GiB of memory, and this process may have"
    with pytest.raises(bellhop.CircuitError, match=message):
        bellhop.qjit(circuit)(0)


# Compiles a function before any call.
BEFORE_CALLS: dict[str, Callable[[Any], Any]] = {
    "decorated": bellhop.qjit,
    "jit_compile": lambda f: bellhop.qjit(lambda x: f()).jit_compile((0.3,)),
    "lowered": lambda f: bellhop.qjit(f, static_argnums=[]).lower().compile(),
    "region": lambda f: bellhop.qjit(lambda x: bellhop.accelerate(f)())(0.3),
}


@pytest.mark.parametrize("way", BEFORE_CALLS)
def test_a_failure_while_xla_compiles(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """XLA begins a circuit without operands when it compiles."""
    # As in a process where no plain jit has been.
    monkeypatch.setattr(jax.errors.JaxRuntimeError, "__new__", RuntimeError.__new__)

    def f() -> Any:
        return qml.QNode(functools.partial(flip, 0), qml.device("lightning.qubit", wires=40))()

    message = r"^the QNode 'flip' \(.*: 40 qubits take .* GiB of memory[^\[]*Use fewer wires\.$"
    with pytest.raises(bellhop.CircuitError, match=message) as caught:
        BEFORE_CALLS[way](f)
    assert caught.value.__context__ is None


@pytest.mark.parametrize("shots", [2**40, 2**63, 2**64])
def test_shots_that_do_not_fit(shots: int) -> None:
    circuit = qml.set_shots(qml.QNode(flip, qml.device("lightning.qubit", wires=2)), shots)
    message = rf"QNode 'flip' \(.*: {shots} shots would take .*Use fewer shots"
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(circuit)(0)


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "default.mixed"])
def test_shots_that_xla_does_not_count(device: str) -> None:
    circuit = qml.QNode(lambda: (qml.Hadamard(0), qml.counts())[1], qml.device(device, wires=1))
    # Where there is memory for them.
    message = (
        rf"QNode .*: (got {2**31} shots, expected at most {2**31 - 1}|{2**31} shots would take)"
    )
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(qml.set_shots(circuit, 2**31))()


@pytest.mark.parametrize("rows", [(10_000,), (100, 100)])
def test_states_of_a_batch_that_do_not_fit(rows: tuple[int, ...]) -> None:
    """In the program there is a state for each row at once."""
    circuit = qml.QNode(flip, qml.device("default.qubit", wires=24), diff_method="backprop")
    program = functools.reduce(lambda f, _: jax.vmap(f), rows, circuit)
    message = (
        rf"QNode 'flip' \(.*: the state of 24 qubits in a batch of {rows[-1]} would take \d+ GiB "
        r"of memory, and this process may have .*Use fewer wires or a smaller batch"
    )
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(program)(jnp.zeros(rows, int))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit"])
def test_shots_of_a_batch_that_do_not_fit(device: str) -> None:
    circuit = qml.QNode(lambda x: (qml.RX(x, 0), qml.sample())[1], qml.device(device, wires=1))
    program = jax.vmap(qml.set_shots(circuit, 10**7))
    message = (
        r"'<lambda>' \(.*10000000 .* in a batch of 1000000 would take .* fewer .* or a smaller"
    )
    with pytest.raises(bellhop.CompileError, match=message):
        bellhop.qjit(program)(jnp.zeros(10**6))


@pytest.mark.parametrize("device", ["lightning.qubit", "default.qubit", "null.qubit"])
def test_samples_of_no_wires(device: str) -> None:
    """As uncompiled on devices that take it: one outcome, without a bit."""
    node = qml.set_shots(qml.QNode(lambda: (qml.sample(), qml.counts()), qml.device(device)), 4)
    samples, (outcomes, counts) = bellhop.qjit(lambda: node())()
    assert samples.shape == (4, 0)
    assert (list(outcomes), list(counts)) == ([0], [4])
