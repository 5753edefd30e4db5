"""Circuit passes: the same results from fewer gates."""

import numpy as np
import pennylane as qml
import pytest
from tests.frontend.circuits.gate_counts import gate_count

import bellhop
from bellhop.tracing.state import is_tracing

LIGHTNING = qml.device("lightning.qubit", wires=3)
DEFAULT = qml.device("default.qubit", wires=3)
BOTH = {"cancel_inverses": {}, "merge_rotations": {}}


def constructs():
    """Return whose loops and conditionals the circuit is made of: the reference has PennyLane's."""
    return bellhop if is_tracing() else qml


def inverses(x):
    qml.Hadamard(0)
    qml.RX(x, wires=1)
    qml.CNOT([0, 1])
    qml.PauliX(2)
    qml.CNOT([0, 1])
    qml.S(2)
    qml.adjoint(qml.S(2))
    qml.PauliX(2)
    qml.CZ([1, 2])
    qml.CZ([2, 1])
    qml.CNOT([0, 1])
    qml.CNOT([1, 0])
    qml.RZ(0.4, wires=0)
    qml.adjoint(qml.RZ(0.4, wires=0))
    qml.Toffoli([0, 1, 2])
    qml.Toffoli([1, 0, 2])
    qml.RY(x, wires=0)
    qml.adjoint(qml.RY(x, wires=0))


def rotations(x):
    qml.Hadamard(0)
    qml.Hadamard(1)
    qml.RX(x, wires=0)
    qml.RZ(0.2, wires=1)
    qml.RX(2 * x, wires=0)
    qml.RZ(0.3, wires=1)
    qml.RX(0.1, wires=0)
    qml.adjoint(qml.RX(x, wires=0))
    qml.CRY(x, wires=[0, 1])
    qml.CRY(x**2, wires=[0, 1])
    qml.CRY(x, wires=[1, 0])
    qml.RZ(0.3, wires=2)
    qml.RZ(-0.3, wires=2)
    qml.MultiRZ(0.1, wires=[0, 2])
    qml.MultiRZ(0.2, wires=[2, 0])
    qml.RY(x, wires=1)
    qml.RX(x, wires=1)


def in_loops_and_branches(x):
    @constructs().for_loop(0, 3, 1)
    def loop(i):
        qml.Hadamard(0)
        qml.Hadamard(0)
        qml.RX(x * i, wires=0)
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])

    loop()

    def taken():
        qml.PauliX(2)
        qml.PauliX(2)
        qml.RY(x, 1)
        qml.RY(0.1, 1)

    constructs().cond(x > 0, taken, lambda: None)()
    qml.RX(x, wires=2)


def dynamic_wires(x):
    @constructs().for_loop(0, 3, 1)
    def loop(i):
        qml.Hadamard(0)
        qml.RX(x, wires=i)
        qml.Hadamard(0)
        qml.Hadamard(i)
        qml.Hadamard(i)

    loop()


def qnode(body, device):
    def circuit(x):
        body(x)
        return qml.expval(qml.Z(0) @ qml.X(1)), qml.expval(qml.Y(1) @ qml.Z(2))

    return qml.QNode(circuit, device)


def counts(body, passes, x=0.7):
    plain = bellhop.qjit(qnode(body, LIGHTNING))
    simple = bellhop.qjit(bellhop.pipeline(passes)(qnode(body, LIGHTNING)))
    expected = qnode(body, DEFAULT)(x)
    for f in (plain, simple):
        np.testing.assert_allclose(f(x), expected, rtol=0, atol=1e-9)
    return gate_count(plain), gate_count(simple)


@pytest.mark.parametrize(
    ("body", "passes", "left"),
    [
        (inverses, {"cancel_inverses": {}}, 6),
        (rotations, {"merge_rotations": {}}, 9),
        (in_loops_and_branches, BOTH, 8),
        (in_loops_and_branches, {"cancel-inverses": {}}, 12),
        # What a dynamic wire is, nobody knows: across it nothing meets.
        (dynamic_wires, BOTH, 5),
    ],
)
def test_results_are_those_of_all_gates(body, passes, left):
    before, after = counts(body, passes)
    assert after == left < before or body is dynamic_wires


@pytest.mark.large
def test_derivatives_are_right():
    def looped(x):
        in_loops_and_branches(x)
        inverses(x)
        rotations(x)

    def ours(passes):
        circuit = bellhop.pipeline(passes)(qnode(looped, LIGHTNING))
        return bellhop.qjit(bellhop.jacobian(lambda x: circuit(x)[0] + 2 * circuit(x)[1]))

    plain, simple = ours({}), ours(BOTH)
    step = 1e-6
    reference = qnode(looped, DEFAULT)
    difference = np.subtract(reference(0.7 + step), reference(0.7 - step))
    expected = np.dot([1, 2], difference) / (2 * step)
    for f in (plain, simple):
        np.testing.assert_allclose(f(0.7), expected, atol=1e-7)
    np.testing.assert_allclose(simple(0.7), plain(0.7), rtol=0, atol=1e-9)
    assert gate_count(simple) < gate_count(plain)


@pytest.mark.large
def test_random_circuits():
    generator = np.random.default_rng(5)
    kinds = [qml.RX, qml.RZ, qml.PhaseShift, qml.Hadamard, qml.PauliX, qml.S, qml.CNOT, qml.CZ]
    for _ in range(8):
        plan = [
            (kinds[generator.integers(len(kinds))], generator.permutation(2), generator.integers(3))
            for _ in range(40)
        ]

        def body(x, plan=plan):
            qml.Hadamard(0)
            for kind, wires, form in plan:
                angles = [[x, 0.3, 2 * x][form]] if kind.num_params else []
                op = kind(*angles, wires=[int(w) for w in wires[: kind.num_wires or 1]])
                if form == 2 and kind is not qml.PauliX:
                    qml.adjoint(op)

        before, after = counts(body, BOTH)
        assert after < before


def test_decorators_add_up_in_order():
    circuit = qnode(inverses, LIGHTNING)
    both = bellhop.passes.merge_rotations(bellhop.passes.cancel_inverses(circuit))
    f = bellhop.qjit(both)
    f(0.7)
    # The QNode itself is as it was.
    g = bellhop.qjit(circuit)
    g(0.7)
    assert (gate_count(f), gate_count(g)) == (5, 18)
    np.testing.assert_allclose(both(0.7), circuit(0.7))


def test_passes_of_the_program_and_of_a_circuit():
    plain, own = qnode(inverses, LIGHTNING), bellhop.pipeline({})(qnode(inverses, LIGHTNING))

    @bellhop.qjit(circuit_transform_pipeline={"cancel_inverses": {}})
    def f(x):
        return plain(x), own(x)

    f(0.7)
    assert gate_count(f) == 6 + 18


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: bellhop.pipeline({"nothing": {}}),
            ValueError,
            "no circuit pass 'nothing'; ",
        ),
        (
            lambda: bellhop.passes.apply_pass("x"),
            ValueError,
            "apply_pass: there is no",
        ),
        (
            lambda: bellhop.pipeline({"cancel_inverses": {"deep": True}}),
            ValueError,
            "'cancel_inverses' has no options",
        ),
        (
            lambda: bellhop.pipeline(("cancel-inverses",)),
            TypeError,
            "pipeline: expected a dictionary of passes",
        ),
        (
            lambda: bellhop.qjit(circuit_transform_pipeline={"nothing": {}}),
            ValueError,
            "qjit: there is no circuit pass 'nothing'",
        ),
        (
            lambda: bellhop.passes.cancel_inverses(lambda x: x),
            TypeError,
            "passes are for QNodes, got .*circuit_transform_pipeline",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()


def static(x, n):
    """Loop as often as Python knows; the body is a function of its own."""
    del n

    @bellhop.for_loop(0, 4, 1)
    def loop(i):
        qml.Hadamard(0)
        qml.RY(0.4, wires=2)
        qml.RX(x * (i + 1), wires=0)
        qml.CNOT(wires=[0, 1])
        qml.RX(0.2, wires=2)
        qml.Hadamard(0)
        qml.S(1)
        qml.adjoint(qml.RY(0.1, wires=2))

    loop()


def dynamic(x, n):
    """Loop as often as the program computes."""

    @bellhop.for_loop(0, n, 1)
    def loop(i):
        qml.T(1)
        qml.CRX(0.3, wires=[0, 2])
        qml.CNOT(wires=[0, 1])
        qml.RX(x * i, wires=0)
        qml.CRX(0.5, wires=[0, 2])
        qml.adjoint(qml.T(1))

    loop()


def measured(x, n):
    """Loop with a measurement between the ends."""
    del n

    @bellhop.for_loop(0, 3, 1)
    def loop(i):
        qml.SWAP(wires=[0, 1])
        qml.RX(x + i, wires=0)
        bellhop.cond(bellhop.measure(0))(lambda: qml.RY(x, wires=2))()
        qml.SWAP(wires=[1, 0])

    loop()


def printing(x, n):
    """Loop with a side effect in the place of gates: all of them merge."""

    @bellhop.for_loop(0, n, 1)
    def loop(i):
        qml.S(0)
        bellhop.tap(lambda i: None, i)
        qml.adjoint(qml.S(0))

    loop()


def repeating(x, n):
    """Loop while a condition holds."""

    @bellhop.while_loop(lambda i: i < n)
    def loop(i):
        qml.CNOT(wires=[0, 1])
        qml.RX(x * i, wires=1)
        qml.CNOT(wires=[0, 1])
        return i + 1

    loop(0)


# Each with its gates, without and with the pass, and how many moved out of the loop.  Those of a
# iteration count once where not all iterations are one call.
LOOPS = {
    "static": (static, 4 * 8, 4 * 5, 2),
    "dynamic": (dynamic, 6, 3, 2),
    "measured": (measured, 4, 2, 1),
    "printing": (printing, 2, 0, 1),
    "repeating": (repeating, 3, 1, 1),
}


def looped(body):
    @qml.qnode(LIGHTNING)
    def circuit(x, n):
        for wire in range(3):
            qml.RY(0.3 + wire, wires=wire)
        body(x, n)
        return qml.expval(qml.X(0) @ qml.Y(1)), qml.probs(wires=[0, 2]), qml.expval(qml.Z(1))

    return circuit


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("by", ["QNode", "program"])
def test_merge_loop_boundaries(assert_close, name, by):
    body, before, after, moved = LOOPS[name]
    plain = bellhop.qjit(looped(body))
    if by == "QNode":
        merged = bellhop.qjit(bellhop.passes.merge_loop_boundaries(looped(body)))
    else:
        pipeline = {"merge_loop_boundaries": {}}
        merged = bellhop.qjit(looped(body), circuit_transform_pipeline=pipeline)
    for n in (0, 1, 4):
        assert_close(merged(0.7, n), plain(0.7, n))
    # A gate that moved stands before the loop, and its inverse after it.
    assert gate_count(plain) == 3 + before
    assert gate_count(merged) == 3 + 2 * moved + after


def test_merge_loop_boundaries_of_differentiated_loops(assert_close):
    def gradient(qnode):
        return bellhop.qjit(bellhop.grad(lambda x: qnode(x, 4)[0]))

    merged = gradient(bellhop.passes.merge_loop_boundaries(looped(static)))
    assert_close(merged(0.7), gradient(looped(static))(0.7))


def test_passes_that_are_transforms_of_pennylane():
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.Hadamard(0)
        qml.Hadamard(0)
        qml.RX(0.3, 0)
        qml.RZ(x, 0)
        qml.GlobalPhase(x)
        qml.GlobalPhase(-x)
        return qml.expval(qml.Y(0))

    expected = -np.sin(0.3) * np.cos(0.4)
    for changed in (
        bellhop.passes.gridsynth(circuit, epsilon=1e-2),
        bellhop.passes.apply_pass("gridsynth", epsilon=1e-2)(circuit),
        bellhop.pipeline({"cancel-inverses": {}, "gridsynth": {"epsilon": 1e-2}})(circuit),
    ):
        difference = abs(bellhop.qjit(changed)(0.4) - expected)
        assert 1e-9 < difference < 1e-2
    program = bellhop.qjit(bellhop.passes.combine_global_phases(circuit))
    assert program(0.4) == pytest.approx(expected)
    assert program.mlir.count("// GlobalPhase(") == 1


def test_passes_that_only_catalyst_has():
    with pytest.raises(
        AttributeError, match=r"'to_ppr' \(of Catalyst\): bellhop's circuits consist"
    ):
        bellhop.passes.to_ppr  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        bellhop.passes.nonsense  # noqa: B018


def test_long_runs_are_tables(reference):
    def circuit(x):
        for i in range(40):
            qml.RX(x * i, wires=i % 3)
            qml.CNOT([i % 3, (i + 1) % 3])
            qml.Hadamard(0)
            qml.Hadamard(0)
        return qml.expval(qml.Z(0)), qml.expval(qml.Y(1))

    plain = bellhop.qjit(qml.QNode(circuit, LIGHTNING))
    without_pairs = bellhop.qjit(bellhop.passes.cancel_inverses(qml.QNode(circuit, LIGHTNING)))
    expected = reference(circuit, 3)(0.3)
    np.testing.assert_allclose(plain(0.3), expected, atol=1e-12)
    np.testing.assert_allclose(without_pairs(0.3), expected, atol=1e-12)
    assert gate_count(plain) == 160
    assert gate_count(without_pairs) == 80


def test_a_decomposition_that_is_longer_than_the_array_is_an_error(monkeypatch):
    monkeypatch.setattr("bellhop.circuits.passes.gridsynth._EXTRA_GATES", -90)

    @bellhop.qjit
    @bellhop.passes.gridsynth(epsilon=1e-3)
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RZ(x, 0)
        return qml.expval(qml.X(0))

    with pytest.raises(bellhop.CircuitError, match=r"gates, expected at most 9, .* static"):
        circuit(0.4)
