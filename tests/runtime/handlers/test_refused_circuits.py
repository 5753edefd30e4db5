"""What the circuit handlers refuse, and that circuits after it are right."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.runtime.circuit_calls import (
    EXPVAL,
    HANDLE,
    PROBS,
    STATE,
    Gate,
    Measurements,
    Param,
    Wire,
    begin,
    call,
    check_still_right,
    end,
    f64,
    gates,
    measure,
    run_circuit,
    to_measurements,
)

import bellhop_runtime

Z = qml.expval(qml.PauliZ(0))
PROGRAM_ERRORS = {
    "unknown gate": (
        [Gate("Hadamard", [0]), Gate("Frobnicate", [0, 1])],
        [Z],
        r"Gate 'Frobnicate' on wires \[0, 1\] \(position 1\): the device raised an error",
    ),
    "wire outside": (
        [Gate("RX", [2], [0.1])],
        [Z],
        r"'RX' on wires \[2\] \(position 0\): wire 2 is not in the circuit, which has wires 0 to 1",
    ),
    "dynamic wire outside": (
        [Gate("PauliX", [Wire(0)])],
        [Z],
        r"'PauliX' on wires \[-3\] \(position 0\): wire -3 is not in the circuit",
    ),
    "dynamic wire twice": (
        [Gate("CNOT", [Wire(0), Wire(0)])],
        [Z],
        "expected different wires, got one of them twice",
    ),
    "one wire twice": ([Gate("CNOT", [1, 1])], [Z], r"'CNOT'.*on wires \[1, 1\].*different wires"),
    "missing parameter": ([Gate("RX", [0])], [Z], "'RX': expected 1 parameters, got 0"),
    "missing wire": ([Gate("CNOT", [0])], [Z], "'CNOT': expected 2 wires, got 1"),
    "wrong matrix": ([Gate("QubitUnitary", [0], [1, 0])], [Z], "expected 8 parameters, got 2"),
    "pauli word": ([Gate("PauliRot:XQ", [0, 1], [0.1])], [Z], "one of I, X, Y, Z.*got 'XQ'"),
    "no pauli word": ([Gate("PauliRot", [0], [0.1])], [Z], "expected a Pauli word"),
    "missing params": ([Gate("RX", [0], [Param(7)])], [Z], "expected 8 parameters, got 0"),
    "bit": ([Gate("BasisState", [0], [0.5])], [Z], "expected 0 or 1 for each wire, got 0.5"),
    "late state": (
        [Gate("PauliX", [0]), Gate("StatePrep", [1], [1, 0, 0, 0])],
        [Z],
        "'StatePrep'.*only before all other operations",
    ),
    "observable outside": (
        [],
        [qml.expval(qml.X(0) @ qml.Y(5))],
        r"Measurement 0, expval of PauliX\[0\] PauliY\[5\] tensor\(2\): wire 5 is not",
    ),
    "overlapping product": (
        [],
        [Z, qml.var(qml.prod(qml.X(0), qml.Y(0)))],
        r"Measurement 1, var of PauliX\[0\] PauliY\[0\] tensor\(2\): the device raised an error",
    ),
}


@pytest.mark.parametrize("case", PROGRAM_ERRORS, ids=str)
def test_error_is_clear_and_later_circuits_are_right(case):
    run, processes, message = PROGRAM_ERRORS[case]
    with pytest.raises(RuntimeError, match=message):
        run_circuit(2, run, processes, wires=[-3] if "outside" in case else [1])
    check_still_right()


def test_missing_plugin():
    with pytest.raises(RuntimeError, match="'/nowhere.so' cannot be loaded: .*open"):
        run_circuit(1, [], [Z], library="/nowhere.so")
    with pytest.raises(RuntimeError, match="does not export 'NothingFactory', expected a plugin"):
        run_circuit(1, [], [Z], factory="Nothing")
    check_still_right()


def test_result_of_wrong_size():
    wanted = Measurements([PROBS, 1, 0], [], [f64(3)])
    with pytest.raises(RuntimeError, match="a result of 2 real numbers, got 3"):
        jax.jit(lambda: end(measure(begin(2), wanted)[0]))()
    wanted = Measurements([STATE], [], [f64(4)])
    with pytest.raises(RuntimeError, match="expected .* 4 complex .* got 4 real"):
        jax.jit(lambda: end(measure(begin(2), wanted)[0]))()
    check_still_right()


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (2, 1, "expected 1 rows, one for each expectation value, got 2"),
        (1, 0, "more than 0 columns, since a gate uses the differentiable parameter with index 0"),
    ],
)
def test_jacobian_of_wrong_shape(rows, columns, message):
    def program():
        state = gates(begin(1, record=2, engine=False), [Gate("RX", [0], [Param(0)])], [0.1])
        wanted = to_measurements([Z], 1)
        state, value, derivative = measure(state, wanted, jacobian=(rows, columns))
        end(state)
        return value, derivative

    with pytest.raises(RuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


def test_another_precision():
    with pytest.raises(RuntimeError, match="precision of a circuit: expected 32 or 64, got 16"):
        jax.jit(lambda: end(begin(1, precision=16)))()
    check_still_right()


@pytest.mark.parametrize(
    ("attribute", "vector", "engine", "message"),
    [
        (4, [], True, "jacobian of a measurement: expected 0 to 3, got 4"),
        (2, [], True, "expected a vector of cotangents or a direction"),
        (
            2,
            [np.ones(1)],
            False,
            "derivatives along a direction are supported only by Bellhop's engine",
        ),
        (3, [np.ones(1)], True, "Jacobian of measured values: expected a result of type f64"),
    ],
)
def test_what_is_no_vjp(attribute, vector, engine, message):
    def program():
        state = begin(1, record=3, engine=engine)
        state = gates(state, [Gate("RX", [0], [Param(0)])], [0.1])
        attributes = {"code": np.array([0, 3, 0]), "jacobian": np.int64(attribute)}
        operands = state, np.zeros(0), *vector
        state, vjp = call("bellhop_circuit_measure", (HANDLE, f64(1)), *operands, **attributes)
        end(state)
        return vjp

    with pytest.raises(RuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


def _of_plugin(tree, code, result):
    seed = np.zeros(4, np.uint32)
    state = begin(1, seed, shots=4, tree=tree, seeded=True, engine=False)
    state, found = measure(state, Measurements(code, [], [result]))
    end(state)
    return found


def _postselected():
    state = begin(1, np.zeros(4, np.uint32), shots=4, tree=5, seeded=True)
    results = HANDLE, jax.ShapeDtypeStruct((), bool)
    attributes = {"postselect": np.int64(1), "reset": np.int64(0), "site": ""}
    state, found = call("bellhop_circuit_mid_measure", results, state, jnp.int32(0), **attributes)
    end(state)
    return found


FREQUENCIES, SHOTS_OF_RUN = [5, 0, 0, 1, 4], [8]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            lambda: _of_plugin(5, FREQUENCIES, f64(1, 1)),
            "shots that share an execution are supported only by Bellhop's engine",
        ),
        (
            lambda: _of_plugin(0, SHOTS_OF_RUN, jax.ShapeDtypeStruct((4,), np.uint8)),
            "shots that share an execution are supported only by Bellhop's engine",
        ),
        (_postselected, "postselection is not supported for shots that share"),
    ],
)
def test_runs_that_shots_share_are_the_engines(program, message):
    with pytest.raises(RuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


def test_jacobian_of_circuit_that_was_not_recorded():
    def program():
        state = begin(1, engine=False)
        state, _, derivative = measure(state, to_measurements([Z], 1), jacobian=(1, 0))
        end(state)
        return derivative

    with pytest.raises(RuntimeError, match="started without recording on the device"):
        jax.jit(program)()
    check_still_right()


def test_variance_comes_last_where_a_circuit_is_differentiated():
    def program(then):
        state = begin(1, record=2, engine=False)
        state, _ = measure(state, to_measurements([qml.var(qml.Z(0))], 1))
        end(then(state))

    no_values = to_measurements([], 1)
    flipped = lambda s: gates(s, [Gate("PauliX", [0])])
    jax.jit(lambda: program(flipped))()
    with pytest.raises(RuntimeError, match="gates after the measurement of a variance"):
        jax.jit(lambda: program(lambda s: measure(flipped(s), no_values, jacobian=(0, 0))[0]))()
    with pytest.raises(RuntimeError, match="measurements after a variance are not supported"):
        jax.jit(lambda: program(lambda s: measure(s, to_measurements([Z], 1))[0]))()
    check_still_right()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([0, 0, 1], "expected another integer, got the end of the attribute"),
        ([0, 0, 0], "expected another integer, got the end of the attribute"),
        ([9, 0, 0, 1, 0, 0], "a name: expected 0 to 0, got 9"),
        ([0, 2, 0, 1, 0, 0], "adjoint: expected 0 to 1, got 2"),
        ([0, 0, 0, 2**60, 0, 0], "number of wires"),
        ([0, 0, -1, 1, 0, 0], "expected 1 more integers, got 0"),
        ([0, 0, -(2**62), 1, 0, 5, 0], "size and offset of a parameter array: expected at most"),
        ([0, 0, -(2**63), 1, 0, 5, 0], "size and offset of a parameter array: expected at most"),
        ([0, 0, -3, 1, 0, -2, 0], "index of a constant: there is none, got 3"),
        ([0, 0, 1, 1, 0, -5, 0], "index of a constant: there is none, got 4"),
        ([0, 0, 0, 1, 1, 0, 1, 7], "a control value: expected 0 to 1, got 7"),
        ([0, 0, 0, 1, 0, -(2**63)], "dynamic wires, got 0"),
    ],
)
def test_malformed_gate_table_is_reported(code, message):
    def program():
        state = call(
            "bellhop_circuit_gates",
            HANDLE,
            begin(1),
            jnp.zeros(0),
            jnp.int32(0),
            jnp.zeros(0, np.int32),
            names="Any",
            code=np.array(code, np.int64),
            constants=np.zeros(0),
        )
        end(state)

    with pytest.raises(RuntimeError, match=message):
        jax.jit(program)()
    check_still_right()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ([9], "a measurement: expected 0 to 8, got 9"),
        ([EXPVAL, 6, 0], "operands of an observable: expected 1 or more"),
        ([EXPVAL, 6, 50], "number of operands: expected 0 to 0, got 50"),
        ([EXPVAL, 3, -1], "wire: expected 0 or more, got -1"),
        ([EXPVAL, 5, 1, 0, 0], "data of observables: expected 8 elements, got 0"),
        ([EXPVAL, *[6, 1] * 300, 3, 0], "nesting of an observable: expected at most 200"),
        ([PROBS, 2, 1, 1], "different wires"),
    ],
)
def test_malformed_measurement_is_reported(code, message):
    results = [f64(4 if code[0] == PROBS else 1)]
    with pytest.raises(RuntimeError, match=message):
        jax.jit(lambda: end(measure(begin(2), Measurements(code, [], results))[0]))()
    check_still_right()


def finished(program, *args):
    """Waits for effects too, in which JAX reports errors of programs without results."""
    result = jax.block_until_ready(program(*args))
    jax.effects_barrier()
    return result


def test_handles_belong_to_their_run():
    open_one = jax.jit(lambda: begin(2))
    use = jax.jit(lambda s: gates(s, [Gate("PauliX", [0])]))
    finish = jax.jit(lambda s: end(s))

    state = open_one()
    assert bellhop_runtime.live_sessions() == 1
    place = int(state[0])
    invented = [0, 1], [2**32 - 1, 0], [12345, 1], [0, 0], [place, 1], [place, 2]
    for foreign in (state, *(jnp.array(words, np.uint32) for words in invented)):
        for operation in (use, finish):
            with pytest.raises(RuntimeError, match="this operation has ended"):
                finished(operation, foreign)

    def stale():
        state = begin(2)
        end(state)
        gates(state, [Gate("PauliX", [0])])

    with pytest.raises(RuntimeError, match="this operation has ended"):
        finished(jax.jit(stale))
    # The program that left it open is gone, and with it the circuit.
    del open_one
    gc.collect()
    check_still_right()


def test_handles_are_not_numbered():
    open_one = jax.jit(lambda: begin(1))
    words = {int(open_one()[1]) for _ in range(8)}
    del open_one
    gc.collect()
    gaps = np.diff(sorted(words))
    assert len(words) == 8
    assert gaps.max() > 2**20


def test_release_run_drops_the_circuits_of_one_execution():
    # The run id is not visible from Python here: another handler of the same
    # execution that fails must have released the circuits which it left open.
    def program():
        begin(2)
        gates(begin(3), [Gate("PauliX", [5])])

    for _ in range(3):
        with pytest.raises(RuntimeError, match="wire 5 is not in the circuit"):
            finished(jax.jit(program))
    left_open = jax.jit(lambda: begin(1))
    left_open()
    bellhop_runtime.release_run(-12345)
    assert bellhop_runtime.live_sessions() == 1
    del left_open
    gc.collect()
