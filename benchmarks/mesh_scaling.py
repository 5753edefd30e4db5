"""Time a state over the devices of a mesh, on this machine's CPU: strong and weak scaling.

    python -m benchmarks.mesh_scaling              # all, some ten minutes on two quiet cores
    python -m benchmarks.mesh_scaling --rounds 1 --smallest 20
    python -m benchmarks.plots                     # draws the newest run

Three layers of RY and a ring of CNOT, the value of an observable and its gradient, in single
precision.  Devices are threads of one process, or processes of one device each.  All share the
cores of this machine, so what is ideal is the time of one device for as many qubits; memory, and
what is sent, are as on as many machines.  Each line is a process of its own, or several.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks import records

RESULTS = records.RESULTS / "mesh"
LAYERS = 3


def configurations(smallest: int) -> Iterator[tuple[int, int, int]]:
    """Yield the processes, the devices of each, and the qubits.

    Args:
        smallest: the qubits of strong scaling; of weak scaling those of one device.
    """
    yield 1, 1, smallest
    for doublings in (1, 2, 3):
        yield 1, 2**doublings, smallest
        yield 1, 2**doublings, smallest + doublings
        # What one device takes for as many.
        yield 1, 1, smallest + doublings
    yield 2, 1, smallest
    yield 4, 1, smallest


def time_circuit(qubits: int, rounds: int, *, is_alone: bool) -> dict[str, Any]:
    """Time the circuit over all devices, or on one, and return what each takes and sends."""
    import jax
    import numpy as np
    import pennylane as qml
    from bellhop.circuits.backends.arrays.mesh import partitioned_simulator, qubit_exchange
    from jax.sharding import Mesh

    import bellhop
    from bellhop.compiler import regions

    @qml.qnode(qml.device("default.qubit", wires=qubits))
    def circuit(x: Any) -> Any:
        for layer in range(LAYERS):
            for wire in range(qubits):
                qml.RY(x[layer, wire], wire)
            for wire in range(qubits):
                qml.CNOT([wire, (wire + 1) % qubits])
        return qml.expval(qml.Z(0) @ qml.Z(1) + 0.3 * qml.Z(qubits - 1))

    plans, taken = list[Any](), list[int]()
    memory_taken_by = regions.memory_taken_by

    def planned(*args: Any, **kwargs: Any) -> Any:
        plans.append(qubit_exchange.planned(*args, **kwargs))
        return plans[-1]

    def noted(compiled: Any) -> int:
        taken.append(memory_taken_by(compiled))
        return taken[-1]

    partitioned_simulator.planned, regions.memory_taken_by = planned, noted
    devices = jax.devices("cpu")
    # The first device is the program's own, where circuits of default.qubit would be in the engine.
    where = devices[1] if is_alone else Mesh(np.array(devices), ("state",))
    x = np.random.default_rng(0).uniform(0, 3, (LAYERS, qubits)).astype(np.float32)
    found: dict[str, Any] = {}
    for name, function in (("value", circuit), ("gradient", jax.value_and_grad(circuit))):
        program = bellhop.qjit(bellhop.accelerate(function, dev=where))
        plans.clear()
        result = jax.block_until_ready(program(x))
        found[name] = {"result": float(np.ravel(jax.tree.leaves(result)[0])[0])}
        found[name] |= {"seconds": [], "bytes": taken[-1]}
        sent = plans[0].moved if plans else 0
        found[name] |= {"sent": sent * (3 if name == "gradient" else 1)}
        for _ in range(rounds):
            start = time.perf_counter()
            jax.block_until_ready(program(x))
            found[name]["seconds"].append(time.perf_counter() - start)
    return found


def _worker(args: argparse.Namespace) -> None:
    import jax

    import bellhop  # noqa: F401

    is_alone = args.devices == args.processes == 1
    jax.config.update("jax_num_cpu_devices", 2 if is_alone else args.devices)
    if args.processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address = f"127.0.0.1:{args.port}"
        jax.distributed.initialize(address, args.processes, args.process)
    print(json.dumps(time_circuit(args.qubits, args.rounds, is_alone=is_alone)))


def _run(processes: int, devices: int, qubits: int, rounds: int) -> dict[str, Any]:
    """Run a configuration in processes of its own; return what the first says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    numbers = {"processes": processes, "devices": devices, "qubits": qubits, "rounds": rounds}
    options = [f"--{name}={value}" for name, value in (numbers | {"port": port}).items()]
    command = [sys.executable, "-m", "benchmarks.mesh_scaling", *options]
    started = [
        subprocess.Popen([*command, f"--process={n}"], stdout=subprocess.PIPE, text=True)
        for n in range(processes)
    ]
    outputs = [each.communicate()[0] for each in started]
    if any(each.returncode for each in started):
        raise SystemExit(f"failed: {numbers}")
    return numbers | json.loads(outputs[0].splitlines()[-1])


def newest() -> Path:
    """Return the newest run."""
    return max(RESULTS.glob("*.json"))


def main() -> None:
    """Measure all, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smallest", type=int, default=24, help="the qubits of one device")
    for name in ("processes", "devices", "qubits", "port"):
        parser.add_argument(f"--{name}", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.process is not None:
        _worker(args)
        return
    rows = []
    print("processes devices qubits | value, gradient: seconds, GiB a device, parts sent")
    for configuration in configurations(args.smallest):
        row = _run(*configuration, args.rounds)
        rows.append(row)
        figures = (
            f"{min(each['seconds']):8.2f} {each['bytes'] / 2**30:6.3f} {each['sent']:6.2f}"
            for each in (row["value"], row["gradient"])
        )
        print("{:9} {:7} {:6} |".format(*configuration), *figures, flush=True)
    now = datetime.now()
    machine = records.machine()
    document = {"date": now.isoformat(timespec="seconds"), "machine": machine}
    # Of other processes, which take what these are timed by.
    document |= {"load": os.getloadavg()[2], "layers": LAYERS, "rows": rows}
    RESULTS.mkdir(exist_ok=True, parents=True)
    path = RESULTS / f"{now:%Y-%m-%d}-{machine}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
