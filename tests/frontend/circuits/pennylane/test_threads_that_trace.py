"""Circuits recorded by several threads at once: PennyLane's queue is one for all of them."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pennylane as qml
import pytest
from tests.patience import PATIENCE

import bellhop
from bellhop._pennylane.patches.thread_queues import use_thread_queues

WORKERS = 6


@pytest.fixture
def hasty():
    """Threads change places after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def program(wires):
    """A function with operators in and around its circuit, which stop PennyLane's recording."""
    device = qml.device("lightning.qubit", wires=wires)

    @qml.qnode(device)
    def circuit(x):
        observable = qml.Hamiltonian([0.5, 0.2], [qml.Z(0), qml.X(1) @ qml.Z(0)])
        for _ in range(2):
            qml.ctrl(qml.RX, control=0)(x, wires=1)
            qml.exp(qml.X(0) @ qml.Y(1), 0.3j)
            qml.QFT(wires=range(wires))
        return qml.expval(observable)

    def run(x):
        qml.simplify(qml.dot([0.1, 0.2], [qml.X(0), qml.Y(1)]) @ qml.Z(0))
        return wires * circuit(x)

    return run


def all_at_once(functions):
    start = threading.Barrier(len(functions))

    def work(function):
        start.wait()
        return function(0.3)

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(work, f) for f in functions]]


def test_threads_that_compile(hasty):
    functions = [program(2 + number % 3) for number in range(WORKERS)]
    expected = [function(0.3) for function in functions]
    for _ in range(2):
        assert all_at_once([bellhop.qjit(f) for f in functions]) == pytest.approx(expected)


def test_thread_that_compiles_beside_uncompiled_circuits(hasty):
    functions = [program(2 + number % 3) for number in range(WORKERS)]
    expected = [function(0.3) for function in functions]
    mixed = [bellhop.qjit(f) if i % 2 else f for i, f in enumerate(functions)]
    assert all_at_once(mixed) == pytest.approx(expected)


def test_circuit_that_waits_for_a_thread_with_a_circuit(hasty):
    inner = program(2)

    @bellhop.qjit
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def outer(x):
        with ThreadPoolExecutor(1) as pool:
            angle = pool.submit(inner, 0.3).result(timeout=PATIENCE)
        qml.RX(x + angle, wires=0)
        return qml.expval(qml.Y(0))

    assert outer(0.1) == pytest.approx(outer.original_function(0.1))


def test_recording_that_stops_in_one_thread_goes_on_in_another():
    use_thread_queues()
    with qml.queuing.AnnotatedQueue() as queue, ThreadPoolExecutor(1) as pool:

        @qml.QueuingManager.stop_recording()
        def silent():
            qml.X(1)
            pool.submit(qml.X, 2).result()
            return qml.QueuingManager.recording()

        qml.X(0)
        assert not silent()
        pool.submit(lambda: qml.QueuingManager.stop_recording().__enter__()).result()
        qml.Y(0)
    assert queue.queue == [qml.X(0), qml.Y(0)]


def test_first_program_where_recording_is_stopped(run_script):
    printed = run_script("""
        import bellhop, pennylane as qml

        @qml.qnode(qml.device("lightning.qubit", wires=1))
        def circuit(x):
            qml.RX(x, wires=0)
            return qml.expval(qml.Z(0))

        for _ in range(2):
            with qml.QueuingManager.stop_recording():
                print(f"{bellhop.qjit(circuit)(0.3):.6f}")
        """)
    assert printed.split() == ["0.955336"] * 2
