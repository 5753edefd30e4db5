"""What regions lower to, compiled for a TPU by libtpu, which needs none for that."""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
from jax.experimental import topologies
from tests.needs import LIBTPU

import bellhop
from bellhop.tracing.state import override_trace_state

pytestmark = [pytest.mark.long, LIBTPU.mark]


@pytest.fixture(scope="module")
def tpu() -> Any:
    """One of the devices of a TPU that is not there."""
    library = Path(LIBTPU.import_module().__file__).with_name("libtpu.so")
    # It ends the process where there is a flag that it does not know, such as those of CPUs.
    os.environ.pop("XLA_FLAGS", None)
    os.environ.update(
        # No TPU is taken, which only one process may.
        ALLOW_MULTIPLE_LIBTPU_LOAD="1",
        TPU_SKIP_MDS_QUERY="1",
        TPU_ACCELERATOR_TYPE="v5litepod-4",
        TPU_WORKER_HOSTNAMES="localhost",
        TPU_WORKER_ID="0",
        TPU_LIBRARY_PATH=str(library),
    )
    return topologies.get_topology_desc("v5e:2x2", platform="tpu").devices[0]


def circuit(x):
    @qml.qnode(qml.device("default.qubit", wires=4))
    def node(x):
        for layer in range(2):
            for wire in range(4):
                qml.RX(x[layer, wire], wire)
            for wire in range(4):
                qml.CNOT([wire, (wire + 1) % 4])
        return qml.expval(qml.Z(0) @ qml.X(1))

    return node(x)


def layer(x):
    return jnp.sum(jnp.tanh(x @ x.T))


def solved(x):
    return jnp.sum(jnp.linalg.solve(x @ x.T + jnp.eye(2, dtype=x.dtype), x))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_gradient", [False, True], ids=["value", "gradient"])
@pytest.mark.parametrize("function", [circuit, layer, solved])
def test_compiles(tpu, function, is_gradient, dtype):
    program = bellhop.qjit(jax.grad(function) if is_gradient else function)
    sharding = jax.sharding.SingleDeviceSharding(tpu)
    x = jax.ShapeDtypeStruct((2, 4), dtype, sharding=sharding)
    # As in a region, of which a device that is not there has none.
    with override_trace_state(in_region=True, platform="tpu"):
        lowered = jax.jit(lambda x: program(x)).trace(x).lower()
    assert lowered.compile().memory_analysis().output_size_in_bytes > 0
