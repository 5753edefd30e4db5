"""What a benchmark case is, and the helpers that case files share.

The driver imports every case file to read names and expectations, so these
files import JAX, PennyLane and the compilers inside their builders only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

LIMIT = "limit"
FRAMEWORKS = ("bellhop", "jax", "catalyst")
#: These run some circuits; what has no builder for them does not mention them.
#: By the name of their distribution.
SIMULATORS = {
    "lightning": "pennylane-lightning",
    "tensorcircuit": "tensorcircuit-ng",
    "qulacs": "qulacs",
    "mindquantum": "mindquantum",
    "aer": "qiskit-aer",
    "qsim": "qsimcirq",
}
#: Those that are called with the angles of a circuit, and differentiate it.
PARAMETRIC = ("lightning", "tensorcircuit", "qulacs", "mindquantum")
NAMES = {
    "bellhop": "Bellhop",
    "jax": "JAX",
    "catalyst": "Catalyst",
    "lightning": "Lightning",
    "tensorcircuit": "TensorCircuit-NG",
    "qulacs": "Qulacs",
    "mindquantum": "MindQuantum",
    "aer": "Qiskit Aer",
    "qsim": "qsim",
    LIMIT: "limit",
}


@dataclass(frozen=True)
class Program:
    """One program, built for one framework and not compiled yet.

    The first `run()` traces, compiles and runs; every `run()` returns only
    when its results and effects are complete.
    """

    run: Callable[[], Any]
    #: Yields the value to check where that is not the result of `run`.
    observe: Callable[[], Any] | None = None
    #: False for a limit that does not compute the value of the case.
    comparable: bool = True
    #: False for a limit that has no compile time.
    compiles: bool = True


Builder = Callable[[], Program]


@dataclass(frozen=True)
class Target:
    """What Bellhop is held to: `framework` takes at least `ratio` times as long."""

    framework: str
    ratio: float
    #: "run" or "compile".
    measure: str = "run"


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    title: str
    #: What no implementation can beat; measured if `builders` has a limit.
    limit: str
    builders: Mapping[str, Builder]
    #: Why a framework has no builder.
    unavailable: Mapping[str, str] = field(default_factory=dict)
    #: The right value, where it is known without any framework.
    expected: Callable[[], Any] | None = None
    #: Times are divided by `items` and reported per `unit`.
    items: int = 1
    unit: str = "call"
    #: CPU devices that the process must show JAX.
    devices: int = 1
    #: Values may differ by this much, and by as large a part of them.
    tolerance: float = 1e-9
    targets: tuple[Target, ...] = ()


def synchronous(function: Callable[..., Any], *arguments: Any) -> Program:
    """Make a program that calls `function` and waits for its one result."""

    def run() -> Any:
        return function(*arguments).block_until_ready()

    return Program(run)


def qjit_builders(build: Callable[[Any], Program]) -> dict[str, Builder]:
    """Build the same source with Bellhop and with Catalyst, whose names agree."""

    def builder(module: str) -> Builder:
        return lambda: build(importlib.import_module(module))

    return {name: builder(name) for name in ("bellhop", "catalyst")}
