"""One state over the devices of a mesh: values are those of PennyLane's own device."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from tests.processes import run_in_processes

import bellhop
from bellhop.circuits.backends.arrays import reversible_loops, simulated_circuit
from bellhop.circuits.backends.arrays.device_wires.diagonal_wires import find_gate_wires
from bellhop.circuits.backends.arrays.run_qnode import choose_pure_simulator
from bellhop.compiler import regions
from bellhop.devices import device_memory
from bellhop.devices.devices import StateAxes, find_state_axes
from bellhop.tracing.state import override_trace_state

N_WIRES = 5
ANGLES = np.random.default_rng(7).uniform(0, 3, (3, N_WIRES))
HAMILTONIAN = qml.Hamiltonian(
    [0.3, 0.5, -0.2, 0.7, 0.1],
    [
        qml.X(0) @ qml.Y(1) @ qml.Z(4),
        qml.Z(0) @ qml.Z(3),
        qml.Y(0),
        qml.X(3) @ qml.X(0),
        qml.Y(1) @ qml.Y(0),
    ],
)


def mesh():
    return Mesh(np.array(jax.devices("cpu")[:2]), ("state",))


def over(function, **options):
    return bellhop.qjit(bellhop.accelerate(function, dev=mesh()), **options)


def qnode(function, device="default.qubit"):
    return qml.qnode(qml.device(device, wires=N_WIRES))(function)


def check(function, *args, atol=1e-12):
    results = over(function)(*args)
    for result, expected in zip(
        jax.tree.leaves(results), jax.tree.leaves(function(*args)), strict=True
    ):
        np.testing.assert_allclose(result, expected, atol=atol)


def gates(x, layers=2):
    for layer in range(layers):
        for wire in range(N_WIRES):
            qml.RY(x[layer, wire], wire)
            qml.RZ(x[layer, wire] ** 2, wire)
        for wire in range(N_WIRES):
            qml.CNOT([wire, (wire + 1) % N_WIRES])
        qml.IsingZZ(x[0, 1], [0, 1])
        qml.CRY(x[1, 1], [0, 4])
        qml.Toffoli([0, 2, 1])


def test_values_of_measurements():
    @qnode
    def circuit(x):
        gates(x)
        return (
            qml.expval(HAMILTONIAN),
            qml.var(qml.Z(0) @ qml.X(1)),
            qml.probs([4, 0, 1]),
            qml.expval(qml.Hermitian(np.array([[1, 2j], [-2j, 3]]), 0)),
            qml.density_matrix([0, 3]),
            qml.state(),
        )

    check(circuit, ANGLES)


def gradient(f):
    return bellhop.grad(f, argnums=(0, 1))


@pytest.fixture(scope="module")
def differentiated():
    """A circuit, and its gradient on one device."""
    observable = lambda c: qml.s_prod(c, HAMILTONIAN) + qml.Z(1)
    circuit = qnode(lambda x, c: (gates(x, 1), qml.expval(observable(c)))[1])
    return circuit, bellhop.qjit(gradient(circuit))(ANGLES, 0.4)


@pytest.mark.parametrize("outside", [False, True])
def test_derivatives(outside, differentiated):
    circuit, expected = differentiated
    function = bellhop.accelerate(circuit if outside else gradient(circuit), dev=mesh())
    slopes = bellhop.qjit(gradient(function) if outside else function)(ANGLES, 0.4)
    for slope, reference in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(slope, reference, atol=1e-12)


def test_gates_on_many_wires_and_preparations():
    @qnode
    def circuit(x):
        qml.BasisState(np.array([1, 0, 1]), [0, 4, 2])
        qml.RX(x[0, 0], 1)
        qml.MultiControlledX([0, 1, 2, 4, 3], control_values=[1, 0, 1, 0])
        qml.RX(x[0, 1], 0)
        qml.MultiRZ(x[0, 2], [0, 1, 2, 3])
        return qml.state()

    @qnode
    def prepared(x):
        qml.StatePrep(x[0, :4] / jnp.linalg.norm(x[0, :4]), [3, 0])
        qml.RX(x[0, 0], 1)
        return qml.probs([1, 0, 3])

    check(lambda x: (circuit(x), prepared(x)), jnp.asarray(ANGLES))


def test_loops_conditionals_and_measurements_in_the_middle():
    @qnode
    def circuit(x):
        @qml.for_loop(0, 3, 1)
        def layers(i):
            for wire in range(N_WIRES):
                qml.RX(x[i, wire], wire)
            for wire in range(N_WIRES):
                qml.CNOT([wire, (wire + 1) % N_WIRES])

        layers()
        qml.cond(x[0, 0] > 1, lambda: qml.RY(x[0, 1], 0), lambda: qml.RX(0.3, 4))()
        outcome = qml.measure(0)
        qml.cond(outcome, lambda: qml.RY(x[1, 0], 1))()
        qml.measure(3, reset=True)
        return qml.expval(HAMILTONIAN), qml.probs([3, 0])

    x = jnp.asarray(ANGLES)
    for result, expected in zip(over(circuit)(x), bellhop.qjit(circuit)(x), strict=True):
        np.testing.assert_allclose(result, expected, atol=1e-12)


def test_lightning_and_single_precision():
    circuit = qnode(lambda x: (gates(x, 1), qml.expval(HAMILTONIAN))[1], "lightning.qubit")
    expected = circuit(ANGLES)
    np.testing.assert_allclose(over(circuit)(ANGLES), expected, atol=1e-12)
    single = over(circuit)(jnp.asarray(ANGLES, jnp.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_shots():
    @qnode
    def circuit(x):
        qml.RX(1.1, 0)
        qml.CNOT([0, 3])
        qml.RY(x, 4)
        return (
            qml.sample(wires=[0, 3, 4]),
            qml.counts(wires=[4, 0], all_outcomes=True),
            qml.expval(qml.Z(4)),
        )

    sampled = over(qml.set_shots(circuit, 4000), seed=1)
    bits, (_, counts), mean = sampled(0.7)
    np.testing.assert_array_equal(bits[:, 0], bits[:, 1])
    np.testing.assert_allclose(np.mean(bits, axis=0)[1:], np.sin([0.55, 0.35]) ** 2, atol=0.03)
    zero, one = np.cos([0.35, 0.55]) ** 2
    expected = np.outer([zero, 1 - zero], [one, 1 - one]).ravel()
    np.testing.assert_allclose(np.array(counts) / 4000, expected, atol=0.03)
    np.testing.assert_allclose(mean, 1 - 2 * np.mean(bits[:, 2]), atol=0.06)
    # No device calls Python there for an error.
    bits, _, mean = sampled(np.nan)
    assert np.all(bits == -1)
    assert np.isnan(mean)


def test_classical_shadows():
    @qnode
    def circuit(x):
        gates(x, 1)
        return qml.shadow_expval([qml.Z(0) @ qml.Z(3), qml.Y(4), qml.Z(1)])

    @qnode
    def expected(x):
        gates(x, 1)
        return [qml.expval(op) for op in (qml.Z(0) @ qml.Z(3), qml.Y(4), qml.Z(1))]

    means = over(qml.set_shots(circuit, 1000), seed=2)(ANGLES)
    # Four standard deviations, which are of a word of k Paulis at most the root of 3**k / shots.
    np.testing.assert_allclose(means, expected(ANGLES), atol=4 * (9 / 1000) ** 0.5)

    shadow = qml.set_shots(qnode(lambda: qml.X(4) and qml.classical_shadow([4, 0])), 64)
    bits, bases = over(shadow, seed=2)()
    np.testing.assert_array_equal(bits[bases == 2], np.nonzero(bases == 2)[1] == 0)
    assert set(np.unique(bases)) == {0, 1, 2}


def test_a_small_state_stays_whole():
    circuit = qml.qnode(qml.device("default.qubit", wires=2))(
        lambda x: (qml.RX(x, 0), qml.CNOT([0, 1]), qml.expval(qml.Z(1)))[2]
    )
    np.testing.assert_allclose(over(circuit)(0.3), np.cos(0.3), atol=1e-12)


def test_axes_that_a_sharding_does_not_name_are_those_of_states():
    both = SimpleNamespace(devices=np.array(jax.devices("cpu")[:2]).reshape(2, 1))
    grid = Mesh(both.devices, ("batch", "state"))
    assert find_state_axes(grid).axes == ("batch", "state")
    assert find_state_axes(NamedSharding(grid, PartitionSpec("batch"))).axes == ("state",)
    assert find_state_axes(NamedSharding(grid, PartitionSpec(("batch", "state")))) is None
    assert find_state_axes(jax.devices("cpu")[:2]) is None


@pytest.mark.parametrize(
    ("op", "local"),
    [
        (qml.CNOT([0, 1]), {1}),
        (qml.CZ([0, 1]), set()),
        (qml.CRY(0.1, [0, 1]), {1}),
        (qml.IsingXX(0.1, [0, 1]), {0, 1}),
        (qml.ctrl(qml.MultiRZ(0.1, [0, 1]), 2), set()),
        (qml.ctrl(qml.SWAP([0, 1]), 2), {0, 1}),
        (qml.QubitUnitary(np.diag([1, 1j]), 0), set()),
        (qml.SWAP([0, 1]), {0, 1}),
    ],
)
def test_wires_on_which_an_operation_is_diagonal(op, local):
    qubits = tuple(op.wires)
    assert find_gate_wires(op, qubits).nondiagonal == local
    found = []
    if op.num_params == 1 and np.ndim(op.data[0]) == 0:

        def traced(x):
            computed = qml.ops.functions.bind_new_parameters(op, [x])
            found.append(find_gate_wires(computed, qubits).nondiagonal)
            return x

        jax.make_jaxpr(traced)(0.1)
        assert found == [local]


def test_what_has_no_parts_is_refused():
    unitary = lambda x, w: (qml.QubitUnitary(x * np.eye(32), [w, *range(4)]), qml.probs(0))[1]
    with pytest.raises(bellhop.CompileError, match="acts on 5 wires, some of them traced"):
        over(qnode(unitary))(1.0, 4)
    three = StateAxes(SimpleNamespace(shape={"a": 3}), ("a",))
    with (
        override_trace_state(state_axes=three),
        pytest.raises(bellhop.CompileError, match="expected a power of two"),
    ):
        choose_pure_simulator(9, "here")


def test_memory_is_refused_before_it_is_allocated(monkeypatch):
    circuit = qml.qnode(qml.device("default.qubit", wires=40))(lambda: qml.expval(qml.Z(0)))
    with pytest.raises(bellhop.CompileError, match=r"1.638e\+04 GiB of memory on each of 2"):
        over(circuit)()
    monkeypatch.setattr(device_memory, "_single_device_memory", lambda *_: 1 << 36)
    with pytest.raises(bellhop.CompileError, match="Use 512 devices"):
        over(circuit)()


def test_values_and_gradients_take_what_the_compiled_region_takes(monkeypatch):
    n = 14

    @qml.qnode(qml.device("default.qubit", wires=n))
    def circuit(x):
        for wire in range(n):
            qml.RX(x[wire], wire)
        return qml.expval(qml.Z(0))

    angles = np.linspace(0, 1, n)
    # Of four parts on each device: enough for a value, as CPUs allocate it, and no gradient.
    monkeypatch.setattr(device_memory, "_single_device_memory", lambda *_: 4 * 2 ** (n + 4) // 2)
    np.testing.assert_allclose(over(circuit)(angles), np.cos(angles[0]), atol=1e-12)
    message = "needs .* GiB of memory on .*over a mesh of 4 such devices"
    with pytest.raises(bellhop.CompileError, match=message):
        over(jax.grad(circuit))(angles)


@pytest.mark.large
def test_a_hamiltonian_of_thousands_of_words():
    n, generator = 6, np.random.default_rng(3)
    numbers = generator.choice(np.arange(1, 4**n), 2000, replace=False)
    words = ["".join("IXYZ"[number >> 2 * w & 3] for w in range(n)) for number in numbers]
    coefficients = generator.normal(size=len(words))
    observable = qml.Hamiltonian(coefficients, list(map(qml.pauli.string_to_pauli_word, words)))

    def circuit(x, measure):
        for wire in range(n):
            qml.RY(x[wire], wire)
            qml.RZ(x[wire] ** 2, wire)
        for wire in range(n):
            qml.CNOT([wire, (wire + 1) % n])
        return measure()

    device = qml.device("default.qubit", wires=n)
    mean = lambda x: circuit(x, lambda: qml.expval(observable))
    angles = generator.uniform(0, 3, n)
    state = qml.QNode(circuit, device)(angles, qml.state)
    expected = np.vdot(state, observable.sparse_matrix(wire_order=range(n)) @ state).real
    program = bellhop.accelerate(jax.value_and_grad(qml.QNode(mean, device)), dev=mesh())
    compiled = bellhop.qjit(program)
    value, slope = compiled(angles)
    np.testing.assert_allclose(value, expected, atol=1e-12)
    step = 1e-4 * np.eye(n)[2]
    ahead, behind = (compiled(angles + each)[0] for each in (step, -step))
    np.testing.assert_allclose(slope[2], (ahead - behind) / 2e-4, atol=1e-5)


@pytest.mark.large
@pytest.mark.parametrize(
    "derive", [lambda f: f, jax.grad, jax.value_and_grad], ids=["value", "gradient", "both"]
)
def test_each_device_takes_its_share_of_what_one_device_takes(monkeypatch, derive):
    n = 20

    @qml.qnode(qml.device("default.qubit", wires=n))
    def circuit(x):
        for _ in range(2):
            for wire in range(n):
                qml.RX(x[wire], wire)
            for wire in range(n):
                qml.CNOT([wire, (wire + 1) % n])
        return qml.expval(qml.Z(0) @ qml.Z(1) + 0.3 * qml.X(n - 1))

    found = []
    monkeypatch.setattr(
        regions, "required_memory", lambda compiled: found.append(taken_by(compiled)) or 0
    )
    taken_by = device_memory.required_memory
    for where in (jax.devices("cpu")[1], mesh()):
        program = bellhop.accelerate(derive(circuit), dev=where)
        bellhop.qjit(program).lower(np.ones(n)).compile()
    alone, each = found
    assert each < 1.1 * alone / 2


def test_loops_that_keep_no_states(monkeypatch):
    kept = []
    monkeypatch.setattr(reversible_loops, "MAX_SAVED_BYTES", 0)
    monkeypatch.setattr(
        simulated_circuit,
        "run_reversibly",
        lambda *args: kept.append(args) or reversible_loops.run_reversibly(*args),
    )

    @qnode
    def circuit(x):
        @qml.for_loop(0, 3, 1)
        def layers(i, scale):
            for wire in range(N_WIRES):
                qml.RX(x[i, wire] * scale, wire)
            for wire in range(N_WIRES):
                qml.CNOT([wire, (wire + 1) % N_WIRES])
            return scale * jnp.cos(x[i, 0])

        layers(1.0)
        return qml.expval(HAMILTONIAN)

    x = jnp.asarray(ANGLES)
    slopes = over(jax.grad(circuit))(x)
    assert kept
    np.testing.assert_allclose(slopes, bellhop.qjit(jax.grad(circuit))(x), atol=1e-12)


def test_loops_of_what_is_not_unitary_keep_states(monkeypatch):
    monkeypatch.setattr(reversible_loops, "MAX_SAVED_BYTES", 0)

    @qnode
    def circuit(x):
        matrix = jnp.array([[1.0, 0.5], [0.0, 1.0]])
        bellhop.for_loop(0, 2, 1)(lambda i: qml.QubitUnitary(x * matrix, wires=0))()
        return qml.expval(qml.Z(0))

    # The first entry is the square of x twice.
    slope = over(jax.grad(circuit))(0.7)
    np.testing.assert_allclose(slope, 4 * 0.7**3, rtol=1e-12)


PROGRAM = """
import os
os.environ["XLA_FLAGS"] = (
    "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
)
import bellhop, jax, jax.numpy as jnp, numpy as np, pennylane as qml
from jax.sharding import Mesh, NamedSharding, PartitionSpec

N_WIRES = 8
devices = np.array(jax.devices("cpu"))

@qml.qnode(qml.device("default.qubit", wires=N_WIRES))
def circuit(x):
    @qml.for_loop(0, 2, 1)
    def layers(i):
        for wire in range(N_WIRES):
            qml.RY(x[i, wire], wire)
        for wire in range(N_WIRES):
            qml.CNOT([wire, (wire + 1) % N_WIRES])
    layers()
    for wire in range(N_WIRES):
        qml.RX(x[0, wire], wire)
    qml.Toffoli([0, 1, 7])
    qml.SWAP([0, 6])
    return qml.expval(qml.X(0) @ qml.Y(1) @ qml.Y(6) + 0.3 * qml.Y(2) @ qml.Z(0))

x = jnp.asarray(np.random.default_rng(1).uniform(0, 3, (4, 2, N_WIRES)))
value_and_grad = jax.value_and_grad(circuit)
alone = bellhop.qjit(lambda x: jax.vmap(value_and_grad)(x))(x)
mesh = Mesh(devices, ("state",))
values = bellhop.qjit(bellhop.accelerate(value_and_grad, dev=mesh))(x[0])
for value, expected in zip(values, alone):
    np.testing.assert_allclose(value, expected[0], atol=1e-12)
grid = Mesh(devices.reshape(2, 4), ("batch", "state"))
rows = NamedSharding(grid, PartitionSpec("batch"))
batch = bellhop.accelerate(jax.vmap(value_and_grad), dev=rows)
for value, expected in zip(bellhop.qjit(batch)(x), alone):
    np.testing.assert_allclose(value, expected, atol=1e-12)
print("the same")
"""


def test_eight_devices_and_batches(run_script):
    assert run_script(PROGRAM) == "the same\n"


OF_PROCESSES = """
import pennylane as qml
from jax.sharding import Mesh

mesh = Mesh(np.array(devices), ("state",))

@qml.qnode(qml.device("default.qubit", wires=6))
def circuit(x):
    for wire in range(6):
        qml.RY(x[wire], wire)
    for wire in range(6):
        qml.CNOT([wire, (wire + 1) % 6])
    for wire in range(6):
        qml.RX(x[wire], wire)
    return qml.expval(qml.X(0) @ qml.Y(1) + 0.3 * qml.Y(2) @ qml.Z(0))

x = np.linspace(0.1, 1.3, 6)
function = bellhop.qjit(bellhop.accelerate(jax.value_and_grad(circuit), dev=mesh))
value, slope = function(x)
print("RESULT", len(devices), [float(v) for v in (value, *slope)])
"""


@pytest.mark.subprocess
@pytest.mark.parametrize("count", [2, 4])
def test_a_state_over_processes(count):
    first, *others = run_in_processes(OF_PROCESSES, count)
    assert others == [first] * (count - 1)
    assert first.startswith(f"RESULT {count} ")
    numbers = np.array([float(n) for n in first.split("[")[1].rstrip("]").split(",")])

    @qml.qnode(qml.device("default.qubit", wires=6))
    def circuit(x):
        for wire in range(6):
            qml.RY(x[wire], wire)
        for wire in range(6):
            qml.CNOT([wire, (wire + 1) % 6])
        for wire in range(6):
            qml.RX(x[wire], wire)
        return qml.expval(qml.X(0) @ qml.Y(1) + 0.3 * qml.Y(2) @ qml.Z(0))

    value, slope = bellhop.qjit(jax.value_and_grad(circuit))(jnp.linspace(0.1, 1.3, 6))
    np.testing.assert_allclose(numbers, [value, *slope], atol=1e-12)
