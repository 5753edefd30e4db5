"""Run mutated circuits through the handlers: python -m tests.fuzz.hostile.handlers COUNT [SEED].

Under AddressSanitizer each access outside of an array ends the process: runtime/sanitize.sh with
tests/fuzz/hostile runs them so.
"""

import sys
import time

import pennylane as qml
from tests.fuzz.hostile.call_frames import Machine
from tests.fuzz.hostile.circuits import Circuit

import bellhop_runtime


def run(count: int, seed: int, *, report: bool = False) -> int:
    """Make at least ``count`` calls of handlers; return how many circuits that were."""
    factory, library = qml.device("lightning.qubit", wires=1).get_c_interface()
    machine = Machine()
    calls = circuits = 0
    began = time.monotonic()
    while calls < count:
        if report:
            print(seed + circuits, end="\r", file=sys.stderr, flush=True)
        calls += Circuit(machine, seed + circuits, (library, factory, "{}")).run()
        circuits += 1
        if bellhop_runtime.live_sessions():
            raise AssertionError(f"seed {seed + circuits - 1} left circuits open")
    print(f"{calls} calls in {circuits} circuits, {time.monotonic() - began:.0f} s")
    return circuits


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, report=True)
