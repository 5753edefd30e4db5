"""How many files and functions of ours the first call goes through: of a gate's gradient, and more.

``python -m tests.gate_path`` prints a table; ``doc/architecture/README.md`` has the record.  Run in
a fresh process, as whatever ran before leaves caches.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = tuple(f"{ROOT / part}/" for part in ("frontend/bellhop", "mlir/bellhop_mlir"))


def trace_functions(function: Callable[[], Any]) -> set[CodeType]:
    """Return the functions of ours that run in a call.

    Without what runs because a module is imported, and comprehensions, which are their functions'.
    """
    found: set[CodeType] = set()
    imports = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal imports
        code = frame.f_code
        if code.co_name == "<module>":
            imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not imports and code.co_filename.startswith(PACKAGES):
            found.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {code for code in found if code.co_name not in ("<listcomp>", "<genexpr>", "<dictcomp>")}


def _gate() -> Callable[[], Any]:
    import pennylane as qml

    import bellhop

    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(2 * x, wires=0)
        return qml.expval(qml.Z(0))

    return lambda: bellhop.qjit(bellhop.grad(circuit))(0.3)


def _callback() -> Callable[[], Any]:
    import numpy as np

    import bellhop

    return lambda: bellhop.qjit(lambda x: bellhop.pure_callback(np.sin, float)(x))(0.3)


def _region() -> Callable[[], Any]:
    import jax.numpy as jnp

    import bellhop

    return lambda: bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin)(x))(0.3)


PROGRAMS = {"gate": _gate, "callback": _callback, "region": _region}


def measure_path(name: str) -> tuple[int, int]:
    """Return how many files and functions a program's first call goes through."""
    found = trace_functions(PROGRAMS[name]())
    return len({code.co_filename for code in found}), len(found)


def main(arguments: list[str]) -> None:
    if arguments:
        print("{:<16}{:>8}{:>12}".format(arguments[0], *measure_path(arguments[0])))
        return
    print(f"{'first call':<16}{'files':>8}{'functions':>12}")
    for name in PROGRAMS:
        command = [sys.executable, "-m", "tests.gate_path", name]
        print(subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip())


if __name__ == "__main__":
    main(sys.argv[1:])
