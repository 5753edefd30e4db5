"""Programs after JAX has dropped its devices, which it also does at the end of a process."""

SCRIPT = """
import threading
import bellhop, jax, jax.numpy as jnp, numpy as np, pennylane as qml
from bellhop import host_callback
from jax.extend.backend import clear_backends

callers = set()

@bellhop.pure_callback
def double(x) -> float:
    callers.add(threading.current_thread().name)
    return 2 * x

@qml.qnode(qml.device("lightning.qubit", wires=1))
def circuit(x):
    qml.RX(x, wires=0)
    return qml.expval(qml.Z(0))

seen = []

def program(x):
    bellhop.tap(seen.append, x)
    return double(x) + circuit(x) + bellhop.accelerate(jnp.sin, dev="cpu:1")(x)

in_qjit, in_jit = bellhop.qjit(program), jax.jit(program)
calls = {
    "qjit": in_qjit,
    "jit": in_jit,
    "compiled": in_qjit.lower(0.5).compile(),
    "grad": jax.grad(bellhop.qjit(lambda x: circuit(x) * x)),
    "device": lambda x: host_callback.call(
        lambda x, device: device.id + x, x, call_with_device=True,
        result_shape=jax.ShapeDtypeStruct((), float)),
}
expected = {name: 1 + np.cos(0.5) + np.sin(0.5) for name in calls}
expected |= {"grad": np.cos(0.5) - np.sin(0.5) / 2, "device": 0.5}

old = jnp.asarray(0.5)
for clears in range(3):
    for x in 0.5, np.float64(0.5), old, jnp.asarray(0.5):
        for name, call in calls.items():
            callers.clear()
            result = call(x)
            np.testing.assert_allclose(result, expected[name], rtol=1e-12)
            assert name == "compiled" or result.devices() == {jax.devices()[0]}
            # No operand of ours was on its way when the program began.
            if not isinstance(x, jax.Array):
                assert callers <= {"MainThread"}, (clears, name, x, callers)
    bellhop.barrier_wait()
    # Four arguments, and three of the calls have the tap.
    assert len(seen) == 4 * 3, (clears, len(seen))
    seen.clear()
    clear_backends()
print("same")
"""


def test_programs_are_made_again_for_new_devices(run_script):
    assert run_script(SCRIPT) == "same\n"
