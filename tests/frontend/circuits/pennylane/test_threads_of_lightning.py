"""Threads in one device of Lightning, with no program of ours: each call has a state of its own."""

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pennylane as qml
import pytest
from tests.patience import PATIENCE

ANGLES = (0.3, 1.1)


class Meeting(qml.operation.Operation):
    """An identity in whose matrix the threads wait for one another, each once."""

    num_wires = 1
    threads: threading.Barrier
    came: set[int]

    @staticmethod
    def compute_matrix():
        thread = threading.get_ident()
        if thread not in Meeting.came:
            Meeting.came.add(thread)
            Meeting.threads.wait(PATIENCE)
        return np.eye(2)


@pytest.fixture(autouse=True)
def meeting():
    Meeting.threads, Meeting.came = threading.Barrier(len(ANGLES)), set()


def tape(angle):
    operations = [qml.RX(angle, 0), Meeting(0), qml.RX(angle, 0)]
    return qml.tape.QuantumScript(operations, [qml.expval(qml.Z(0))], trainable_params=[0, 1])


VALUES, SLOPES = np.cos(np.multiply(ANGLES, 2)), -np.sin(np.multiply(ANGLES, 2))
CALLS = {
    "execute": (lambda device, circuit: device.execute([circuit])[0], VALUES),
    "compute_derivatives": (
        lambda device, circuit: device.compute_derivatives([circuit])[0][0],
        SLOPES,
    ),
    "execute_and_compute_derivatives": (
        lambda device, circuit: device.execute_and_compute_derivatives([circuit])[1][0][0],
        SLOPES,
    ),
    "compute_vjp": (lambda device, circuit: device.compute_vjp([circuit], [1.0])[0][0], SLOPES),
    "execute_and_compute_vjp": (
        lambda device, circuit: device.execute_and_compute_vjp([circuit], [1.0])[1][0][0],
        SLOPES,
    ),
}


@pytest.mark.parametrize(("call", "expected"), CALLS.values(), ids=CALLS)
def test_two_threads_in_one_device(call, expected):
    device = qml.device("lightning.qubit", wires=1)
    with ThreadPoolExecutor(len(ANGLES)) as pool:
        found = list(pool.map(lambda angle: call(device, tape(angle)), ANGLES))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    # The device goes on with one of the two states.
    assert device._statevector.num_wires == 1


def test_a_state_that_was_kept_for_a_derivative_is_found(monkeypatch):
    state_vector = importlib.import_module(
        "pennylane_lightning.lightning_qubit._state_vector"
    ).LightningStateVector
    run, runs = state_vector.get_final_state, []
    monkeypatch.setattr(state_vector, "get_final_state", lambda *a: runs.append(a) or run(*a))
    device = qml.device("lightning.qubit", wires=1)

    @qml.qnode(device, interface="autograd", diff_method="adjoint", device_vjp=True)
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    x = qml.numpy.array(0.3, requires_grad=True)
    np.testing.assert_allclose(qml.grad(circuit)(x), -np.sin(0.3), atol=1e-12)
    assert len(runs) == 1


def test_a_device_of_a_class_of_ones_own():
    class Device(type(qml.device("lightning.qubit", wires=1))):
        def execute(self, circuits, execution_config=None):
            return super().execute(circuits, execution_config)

    call, expected = CALLS["execute"]
    device = Device(wires=1)
    with ThreadPoolExecutor(len(ANGLES)) as pool:
        found = list(pool.map(lambda angle: call(device, tape(angle)), ANGLES))
    np.testing.assert_allclose(found, expected, atol=1e-12)


SCRIPT = """
    import os, sys
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    {first}
    import jax, jax.numpy as jnp, pennylane as qml

    # Without derivatives, because PennyLane caches results and Jacobians for them in cachetools'
    # LRUCache, which is not safe for threads: two threads that evict one entry raise a KeyError.
    @qml.qnode(qml.device("lightning.qubit", wires=1), diff_method=None)
    def circuit(x):
        for _ in range(40):
            qml.RX(x / 40, wires=0)
        return qml.expval(qml.Z(0))

    {then}
    # PennyLane's own path asks for them, from jax 0.11 on.
    from bellhop._jax.patches.removed_jax_names import restore_removed_names
    restore_removed_names()
    sys.setswitchinterval(1e-6)
    mesh, part = jax.sharding.Mesh(jax.devices("cpu"), "d"), jax.sharding.PartitionSpec("d")
    spread = jax.shard_map(
        jax.vmap(circuit), mesh=mesh, in_specs=part, out_specs=part, check_vma=False
    )
    x = jnp.linspace(0.1, 2, 64)
    print(*[int(jnp.sum(jnp.abs(jax.jit(spread)(x) - jnp.cos(x)) > 1e-9)) for _ in range(4)])
"""


LOOKED_FOR = """
    import importlib.util, sys
    import bellhop, pennylane
    name = "pennylane_lightning.lightning_base.lightning_base"
    importlib.util.find_spec(name)
    importlib.import_module(name)
    print("methods of Lightning's devices" in bellhop._patching.installed_patches())
    print(any(type(finder) is bellhop._patching._ImportHook for finder in sys.meta_path))
"""


def test_who_only_looked_for_lightning_may_import_it_later(run_script):
    assert run_script(LOOKED_FOR).split() == ["True", "False"]


@pytest.mark.parametrize(
    ("first", "then"), [("import bellhop", ""), ("", "import bellhop")], ids=["before", "after"]
)
def test_importing_bellhop_is_enough(run_script, first, then):
    printed = run_script(SCRIPT.format(first=first, then=then), JAX_ENABLE_X64="1")
    assert printed.split() == ["0"] * 4
