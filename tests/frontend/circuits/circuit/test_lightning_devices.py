"""One selection of circuits on each of PennyLane's compiled simulators that is installed."""

import os
import subprocess
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from tests.needs import KOKKOS
from tests.patience import run_at_once

import bellhop
from bellhop_runtime import _runtime


@pytest.fixture(
    params=["lightning.qubit", pytest.param("lightning.kokkos", marks=KOKKOS.mark)],
)
def device_name(request):
    return request.param


@pytest.fixture
def node(device_name):
    """Make a QNode on the device."""

    def make(function, wires=4, **options):
        return qml.QNode(function, qml.device(device_name, wires=wires), **options)

    return make


@pytest.fixture
def check(node, assert_close):
    """Compare values, exact ones, with those of default.qubit."""

    def compare(function, *args, wires=4):
        expected = qml.QNode(function, qml.device("default.qubit", wires=wires))(*args)
        assert_close(bellhop.qjit(node(function, wires))(*map(jnp.asarray, args)), expected)

    return compare


def layers(x, y):
    qml.RX(x, wires=0)
    qml.ctrl(qml.RY(y, wires=1), control=0, control_values=[0])
    qml.IsingXY(x * y, wires=[1, 2])
    qml.adjoint(qml.Rot(x, y, 0.3, wires=2))
    qml.PauliRot(y, "XYZ", wires=[3, 1, 0])
    qml.DoubleExcitation(x, wires=[0, 1, 2, 3])
    qml.MultiControlledX(wires=[0, 1, 3])


def test_gates_and_measurements(check):
    def circuit(x, y):
        layers(x, y)
        return [
            qml.expval(qml.Z(0) @ qml.X(2)),
            qml.expval(qml.Hamiltonian([0.5, -1.5], [qml.Y(1), qml.Z(0) @ qml.Z(3)])),
            qml.expval(qml.Hermitian(np.array([[1.0, 2j], [-2j, 0.5]]), wires=1)),
            qml.expval(qml.Projector([1, 0], wires=[0, 2])),
            qml.var(qml.Y(2)),
            qml.probs(wires=[2, 0]),
            qml.probs(op=qml.X(1)),
            qml.state(),
        ]

    check(circuit, 0.4, 0.7)


@pytest.mark.parametrize("controls", [0, 1, 2])
def test_a_computed_unitary(check, controls):
    """PennyLane lists some operations that a plugin itself does not know."""

    def circuit(x):
        layers(x, x)
        matrix = qml.math.convert_like(qml.IsingXX.compute_matrix(x), x)
        op = qml.QubitUnitary(matrix, wires=[0, 1])
        if controls:
            qml.ctrl(op, control=range(2, 2 + controls))
        qml.ISWAP(wires=[0, 3])
        qml.GlobalPhase(x)
        return qml.state()

    check(circuit, 0.4)


def test_preparations(check):
    def circuit(x):
        qml.StatePrep(np.array([3, 4j]) / 5, wires=1)
        qml.BasisState([1, 0], wires=[0, 3])
        qml.RX(x, wires=1)
        return qml.state()

    check(circuit, 0.4)


@pytest.mark.parametrize("method", ["adjoint", "parameter-shift", "finite-diff"])
def test_derivatives(node, method):
    def circuit(x, y):
        layers(x, y)
        return qml.expval(qml.Z(0) @ qml.X(2) + 0.5 * qml.Y(3))

    derivative = bellhop.grad(node(circuit, diff_method=method), argnums=(0, 1))
    variables = [qml.numpy.array(value, requires_grad=True) for value in (0.4, 0.7)]
    expected = qml.grad(qml.QNode(circuit, qml.device("default.qubit", wires=4)))(*variables)
    tolerance = 1e-5 if method == "finite-diff" else 1e-9
    np.testing.assert_allclose(bellhop.qjit(derivative)(0.4, 0.7), expected, rtol=0, atol=tolerance)


def test_derivative_of_probabilities_in_a_batch(node):
    circuit = node(lambda x: (qml.RX(x, 0), qml.CNOT([0, 1]), qml.probs(wires=1))[2])
    x = jnp.linspace(0, 1, 5)
    jacobian = bellhop.qjit(bellhop.vmap(bellhop.jacobian(circuit)))(x)
    expected = np.stack([-np.sin(x) / 2, np.sin(x) / 2], axis=1)
    np.testing.assert_allclose(jacobian, expected, rtol=0, atol=1e-9)


def test_a_loop_of_gates_on_computed_wires(node):
    @bellhop.for_loop(0, 3, 1)
    def rotate(i, x):
        qml.RX(x, wires=i)
        qml.CNOT([i, i + 1])
        return x * 1.5

    def circuit(x):
        rotate(x)
        return qml.expval(qml.Z(2))

    value, gradient = bellhop.qjit(bellhop.value_and_grad(node(circuit)))(0.3)
    cosines = np.cos([0.3, 0.45, 0.675])
    slope = -sum(
        factor * np.sin(0.3 * factor) * np.prod(np.delete(cosines, index))
        for index, factor in enumerate([1, 1.5, 2.25])
    )
    np.testing.assert_allclose([value, gradient], [np.prod(cosines), slope], rtol=0, atol=1e-9)


def test_measuring_in_the_middle(node):
    @bellhop.value_and_grad
    @node
    def circuit(x):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0, reset=True)
        bellhop.cond(outcome)(lambda: qml.RY(x, wires=1))()
        return qml.expval(qml.Z(1))

    x = 0.4
    p = np.sin(x / 2) ** 2
    slope = (np.cos(x) - 1) * np.sin(x) / 2 - p * np.sin(x)
    expected = [1 - p + p * np.cos(x), slope]
    np.testing.assert_allclose(bellhop.qjit(circuit)(x), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("shots", [4000, (1000, 3000)])
def test_shots(node, shots):
    @node
    def circuit(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return qml.expval(qml.X(0) @ qml.Y(1)), qml.probs(wires=1), qml.counts(qml.Z(0))

    sampled = qml.set_shots(circuit, shots)
    first, again = (bellhop.qjit(sampled, seed=5)(0.8) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    for mean, probs, (values, counts) in [first] if shots == 4000 else first:
        np.testing.assert_allclose(mean, -np.sin(0.8), atol=0.15)
        np.testing.assert_allclose(probs[0], np.cos(0.4) ** 2, atol=0.08)
        np.testing.assert_array_equal(values, [-1, 1])
        np.testing.assert_allclose(counts / counts.sum(), probs[::-1], atol=1e-9)


def test_outcomes_with_shots(node):
    @node
    def circuit(x):
        qml.RX(x, wires=0)
        outcome = bellhop.measure(0)
        bellhop.cond(outcome)(lambda: qml.X(1))()
        return qml.sample(outcome), qml.sample(wires=1)

    first, second = bellhop.qjit(qml.set_shots(circuit, 200), seed=1)(1.2)
    np.testing.assert_array_equal(first, second[:, 0])
    assert 0 < first.sum() < 200


def test_sizes_in_turn_and_at_once(device_name):
    """Devices go back to a pool, and threads share one plugin; large circuits use several."""

    def program(wires):
        @bellhop.qjit
        @bellhop.grad
        @qml.qnode(qml.device(device_name, wires=wires))
        def circuit(x):
            for wire in range(wires):
                qml.RX(x, wire)
            return qml.expval(qml.prod(*map(qml.Z, range(wires))))

        return circuit

    sizes = (2, 3, 11, 12)
    programs = {wires: program(wires) for wires in sizes}
    wrong = []

    def work(start):
        for turn in range(12):
            wires = sizes[(start + turn) % len(sizes)]
            expected = -wires * np.sin(0.3) * np.cos(0.3) ** (wires - 1)
            if not np.isclose(programs[wires](0.3), expected, rtol=0, atol=1e-9):
                wrong.append(wires)

    run_at_once(*(partial(work, start) for start in range(4)))
    assert wrong == []


def test_saved_and_loaded(node, tmp_path):
    circuit = node(lambda x: (qml.RX(x, 0), qml.expval(qml.Z(0)))[1])
    program = bellhop.qjit(circuit)
    program(0.3)
    program.save(tmp_path / "circuit.bellhop")
    loaded = bellhop.load(tmp_path / "circuit.bellhop")
    np.testing.assert_allclose(loaded(0.3), np.cos(0.3), rtol=0, atol=1e-9)


def test_option_that_does_not_reach_the_plugin(device_name):
    device = qml.device(device_name, wires=1)
    device._mpi = True
    words = f"the option mpi=True of {device_name} is not supported in compiled circuits"
    with pytest.raises(bellhop.CompileError, match=words):
        bellhop.qjit(qml.QNode(lambda: qml.probs(), device))()


@KOKKOS.mark
def test_options_of_kokkos():
    from pennylane_lightning.lightning_kokkos_ops import InitializationSettings

    device = qml.device("lightning.kokkos", wires=1, kokkos_args=InitializationSettings())
    with pytest.raises(bellhop.CompileError, match="the option kokkos_args .* KOKKOS_NUM_THREADS"):
        bellhop.qjit(qml.QNode(lambda: qml.probs(), device))()


@KOKKOS.mark
def test_two_plugins_in_one_process(run_script):
    """Compiled and not, in any order, from several threads at first; and the process ends well."""
    printed = run_script(
        """
        import threading, warnings
        warnings.filterwarnings("ignore", message=".*PennyLane is not yet compatible.*")
        import numpy as np
        import pennylane as qml
        import bellhop

        def node(name, wires):
            @qml.qnode(qml.device(name, wires=wires))
            def circuit(x):
                for wire in range(wires):
                    qml.RX(x, wire)
                return qml.expval(qml.prod(*map(qml.Z, range(wires))))
            return circuit

        ready = threading.Barrier(4)

        def work(name, wires):
            circuit = node(name, wires)
            compiled = bellhop.qjit(circuit)
            ready.wait()
            for _ in range(3):
                assert np.isclose(compiled(0.3), np.cos(0.3) ** wires)
                assert np.isclose(circuit(0.3), np.cos(0.3) ** wires)

        names = ["lightning.kokkos", "lightning.qubit"]
        cases = [(name, wires) for name in names for wires in (3, 11)]
        threads = [threading.Thread(target=work, args=case) for case in cases]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        # A circuit that fails leaves its device behind.
        def fails(x):
            raise ValueError("no")
        failing = bellhop.qjit(lambda x: node(names[0], 3)(bellhop.pure_callback(fails, float)(x)))
        try:
            failing(0.1)
        except ValueError:
            print("done")
        """,
        OMP_PROC_BIND="false",
    )
    assert printed.strip() == "done"


def runs_in_engine(device):
    @bellhop.qjit
    @qml.qnode(device)
    def circuit(x):
        for wire in device.wires:
            qml.RX(x, wire)
        return qml.expval(qml.Z(0) @ qml.Z(1))

    before = _runtime.rows_in_engine()
    np.testing.assert_allclose(circuit(0.3), np.cos(0.3) ** 2, atol=1e-12)
    return _runtime.rows_in_engine() - before


def test_circuits_of_all_sizes_run_in_the_engine(device_name):
    assert runs_in_engine(qml.device(device_name, wires=13)) == 1


def test_large_circuits_of_a_plugin_for_gpus_are_the_plugins(tmp_path):
    factory, plugin = qml.device("lightning.qubit", wires=1).get_c_interface()
    source, library = tmp_path / "gpu.c", tmp_path / "gpu.so"
    source.write_text("void _ZN6Kokkos4CudaC1Ev(void) {}")
    linked = ("-Wl,--no-as-needed", plugin, f"-Wl,-rpath,{os.path.dirname(plugin)}")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, *linked], check=True)

    class OnGpu(type(qml.device("lightning.qubit", wires=1))):
        def get_c_interface(self):
            return factory, str(library)

    assert [runs_in_engine(OnGpu(wires=wires)) for wires in (12, 13)] == [1, 0]
