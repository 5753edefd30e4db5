"""null.qubit: the constants of PennyLane's device, from programs without gates."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest

import bellhop

EXACT = {
    "expval": lambda: qml.expval(qml.Z("a")),
    "expval of a sum": lambda: qml.expval(qml.Hamiltonian([1.0, 2.0], [qml.Z("a"), qml.X("b")])),
    "var": lambda: qml.var(qml.X("b") @ qml.Y("c")),
    "probs": lambda: qml.probs(),
    "probs of wires": lambda: qml.probs(wires=["b", "a"]),
    "probs of an observable": lambda: qml.probs(op=qml.X("a") @ qml.Y("b")),
    "state": lambda: qml.state(),
    "density matrix": lambda: qml.density_matrix(["a"]),
    "purity": lambda: qml.purity(["a"]),
    "entropy": lambda: qml.vn_entropy(["a"]),
    "mutual information": lambda: qml.mutual_info(["a"], ["b", "c"]),
    "several": lambda: {"z": qml.expval(qml.Z("a")), "p": [qml.probs(wires="c")]},
}
SAMPLED = {
    "expval": EXACT["expval"],
    "var": EXACT["var"],
    "probs": EXACT["probs of wires"],
    "sample": lambda: qml.sample(),
    "sample of a wire": lambda: qml.sample(wires="b"),
    "sample of an observable": lambda: qml.sample(qml.Z("a")),
    "shadow": lambda: qml.classical_shadow(["a", "b"]),
    "shadow_expval": lambda: qml.shadow_expval(qml.Z("a")),
    "several": lambda: (qml.expval(qml.Z("a")), qml.sample(wires=["a", "b"])),
}


def null(function, wires=("a", "b", "c"), **options):
    return qml.QNode(function, qml.device("null.qubit", wires=wires), **options)


def circuit_of(measure):
    def circuit(x):
        qml.RX(x, "a")
        qml.CNOT(["a", "b"])
        return measure()

    return null(circuit)


def assert_same(ours, theirs):
    """Compare structure, shapes, dtypes and values."""
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        other = np.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(name):
    circuit = circuit_of(EXACT[name])
    assert_same(bellhop.qjit(circuit)(0.3), circuit(0.3))


@pytest.mark.parametrize("shots", [7, (5, (6, 2))])
@pytest.mark.parametrize("name", SAMPLED)
def test_results_with_shots(name, shots):
    circuit = qml.set_shots(circuit_of(SAMPLED[name]), shots)
    assert_same(bellhop.qjit(circuit)(0.3), circuit(0.3))


@pytest.mark.parametrize(
    ("measure", "values"),
    [
        (lambda: qml.counts(), range(8)),
        (lambda: qml.counts(qml.X("a") @ qml.Y("b")), [-1.0, 1.0]),
    ],
)
def test_counts_are_of_the_first_outcome(measure, values):
    circuit = qml.set_shots(circuit_of(measure), 7)
    ((key, number),) = circuit(0.3).items()
    outcomes, counts = bellhop.qjit(circuit)(0.3)
    np.testing.assert_array_equal(outcomes, values)
    np.testing.assert_array_equal(counts, [int(number), *[0] * (len(values) - 1)])
    assert int(key, 2) == outcomes[0] if isinstance(key, str) else key == outcomes[0]


def test_a_batch():
    circuit = circuit_of(EXACT["probs"])
    x = np.linspace(0, 1, 5)
    assert_same(bellhop.qjit(circuit)(jnp.asarray(x)), circuit(x))


def test_derivatives_are_zeros():
    circuit = null(lambda x: (qml.RX(x[0], "a"), qml.RY(x[1], "b"), qml.probs(wires="a"))[2])
    x = np.array([0.1, 0.2])
    expected = qml.jacobian(circuit)(qml.numpy.array(x, requires_grad=True))
    assert_same(bellhop.qjit(bellhop.jacobian(circuit))(jnp.asarray(x)), expected)


def test_a_circuit_that_no_simulator_could_hold():
    shape = qml.StronglyEntanglingLayers.shape(n_layers=2, n_wires=100)

    @bellhop.qjit
    def program(weights):
        def circuit(weights):
            qml.StronglyEntanglingLayers(weights, wires=range(100))
            return [qml.expval(qml.Z(i)) for i in range(100)]

        return null(circuit, wires=100)(weights)

    assert_same(program(jnp.ones(shape)), [np.zeros(())] * 100)


def test_control_flow_and_outcomes():
    """Loops run, and what is measured in the middle is zero, or what it is postselected on."""

    @bellhop.qjit
    @qml.qnode(qml.device("null.qubit", wires=3), mcm_method="single-branch-statistics")
    def circuit(n, x):
        @bellhop.for_loop(0, n, 1)
        def rotate(i, total):
            qml.RX(x, wires=i % 3)
            return total + x

        bellhop.callback(seen.append)(rotate(0.0))
        first = bellhop.measure(0)
        second = bellhop.measure(1, postselect=1)
        bellhop.callback(seen.append)(qml.cond(first, lambda: 1, lambda: 2)())
        qml.adjoint(lambda: bellhop.cond(second)(lambda: qml.X(0))())()
        bellhop.callback(seen.append)(second)
        return qml.expval(first), qml.probs(op=[first, second])

    seen = []
    assert_same(circuit(4, 0.5), (np.zeros(()), np.array([1.0, 0, 0, 0])))
    np.testing.assert_array_equal(seen, [2.0, 2, True])


def test_nothing_is_left_in_the_program():
    program = bellhop.qjit(circuit_of(EXACT["probs"]))
    program(0.3)
    assert "quantum." not in program.mlir
    assert "cosine" not in program.mlir_opt


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (lambda: (qml.X(5), qml.probs(wires=0))[1], {}, "there is no wire 5 on the device"),
        (lambda: qml.probs(wires=5), {}, "there is no wire 5 on the device"),
        (lambda: None, {}, "the quantum function returned no value"),
        (lambda: qml.sample(), {}, "sample needs shots"),
        (lambda: qml.counts(), {}, "counts needs shots"),
        (lambda: qml.probs(), {"wires": 40}, "of 40 wires on null.qubit, only of up to 30 wires"),
        (
            lambda: qml.expval(qml.Z(0)),
            {"track_resources": True, "compute_depth": True},
            "the option compute_depth of null.qubit is not supported by bellhop",
        ),
    ],
)
def test_errors(function, options, words):
    device = qml.device("null.qubit", **{"wires": 2, **options})
    with pytest.raises(bellhop.CompileError, match=words):
        bellhop.qjit(qml.QNode(function, device))()


def test_resources_are_counted_where_the_program_gets_to_them(tmp_path):
    device = qml.device(
        "null.qubit", wires=2, track_resources=True, resources_filename=str(tmp_path / "used.json")
    )

    @bellhop.qjit
    @qml.qnode(device)
    def circuit(x, n):
        bellhop.for_loop(0, n)(lambda i: qml.RX(x, wires=0) and None)()
        bellhop.cond(x > 1, lambda: qml.T(0) and None, lambda: qml.S(0) and None)()
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(0)), qml.probs()

    for n_iterations in (3, 5):
        assert circuit(0.3, n_iterations)[0] == 0
        used = json.loads((tmp_path / "used.json").read_text())
        assert used["gate_types"] == {"RX": n_iterations, "S": 1, "CNOT": 1}
        assert (used["num_wires"], used["num_gates"]) == (2, n_iterations + 2)
        assert used["gate_sizes"] == {"1": n_iterations + 1, "2": 1}
        assert used["measurements"] == {"expval(PauliZ)": 1, "probs(all wires)": 1}
