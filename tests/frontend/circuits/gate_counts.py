"""How many gates a compiled program applies, as its module says."""

import re
from collections.abc import Iterator
from typing import Any

_RUN = re.compile(r'"quantum\.gates"\(([^)]*)\).*?code = array<i64: ?([-\d, ]*)>, constants')
_CONSTANT = re.compile(r"(%\S+) = stablehlo.constant dense<(\d+)>")


def calls(f: Any) -> Iterator[tuple[int, int | None]]:
    """Yield the gates of each run in a program, and its iterations: None where they are computed.

    A gate takes five numbers of a table, and its own.
    """
    constants: dict[str, int] = {}
    for line in f.mlir_opt.splitlines():
        if constant := _CONSTANT.search(line):
            # Each function numbers its values anew.
            constants[constant[1]] = int(constant[2])
        for operands, code in _RUN.findall(line):
            _state, _params, _offset, _wires, *n_iterations = operands.split(", ")
            gates = len(list(_adjoints(code)))
            yield gates, constants.get(n_iterations[0]) if n_iterations else 1


def _adjoints(code: str) -> Iterator[bool]:
    """Yield of each gate of a run whether it is an adjoint one."""
    numbers = [int(number) for number in code.split(",")]
    while numbers:
        _, adjoint, slots, wires, controls, *numbers = numbers
        # The slots of an array are a negative count and the first slot.
        n_slots = slots if slots >= 0 else 1
        numbers = numbers[n_slots + wires + 2 * controls :]
        yield adjoint == 1


def has_adjoints(f: Any) -> bool:
    """Tell whether a gate of a program is an adjoint one."""
    return any(any(_adjoints(code)) for _, code in _RUN.findall(f.mlir))


def iterations_of_calls(f: Any) -> list[int | None]:
    """Return the iterations of each run in a program, as ``calls`` yields them."""
    return [n_iterations for _, n_iterations in calls(f)]


def gate_count(f: Any) -> int:
    """Count the gates of a program, those of a loop in one call as often as it runs.

    The body of another loop counts once.
    """
    return sum(gates * (n_iterations or 1) for gates, n_iterations in calls(f))
