"""A QNode that is called while a program is traced becomes a circuit of the program.

For ``bellhop.qjit(lambda x: circuit(x))``, where ``circuit`` is a QNode::

    without this patch    PennyLane makes a tape of tracers and asks the device to run it
    with it               quantum_circuit[...] x

A QNode of a plain program inside a ``jax.shard_map`` over several devices is a circuit, too.

Replaced: ``QNode.__call__``.
Versions: 0.45.
Upstream: PennyLane's hook for compilers knows Catalyst's class alone.  And of PennyLane 0.45.1 with
Lightning 0.45.0, to which JAX calls back from a thread of each device; in some runs a few of these
are wrong, without an error::

    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
    part = jax.sharding.PartitionSpec("d")
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    spread = jax.shard_map(jax.vmap(jax.grad(circuit)), mesh=mesh, in_specs=part,
                           out_specs=part, check_vma=False)
    x = jnp.linspace(0.1, 2.0, 64)
    print(jnp.abs(jax.jit(spread)(x) + jnp.sin(x)) > 1e-6)

Installed: when a program that may call QNodes is first traced.
Test: ``tests/frontend/circuits``.
"""

from collections.abc import Callable
from typing import Any

import pennylane as qml

from bellhop._patching import original, patch


@patch("QNode.__call__", "QNodes that a program calls are circuits of it")
def call_qnodes_by(make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Let ``QNode.__call__`` be what ``make`` makes of PennyLane's own."""
    qml.QNode.__call__ = make(original(qml.QNode, "__call__"))
