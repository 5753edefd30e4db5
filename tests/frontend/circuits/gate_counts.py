"""How many gates a compiled program applies, as its module says."""

import re
from typing import Any

_TABLE = re.compile(
    r'"quantum\.gates".*?code = array<i64: ?([-\d, ]*)>, constants.*?turns = (\d+) : i64'
)


def gate_count(f: Any) -> int:
    """Count the gates of a program, those of a loop in one call as often as it turns.

    The body of another loop counts once.  A gate takes five numbers of a table, and its own.
    """
    total = 0
    for code, turns in _TABLE.findall(f.mlir_opt):
        numbers = [int(number) for number in code.split(",")]
        while numbers:
            _, _, slots, wires, controls, *numbers = numbers
            numbers = numbers[slots + wires + 2 * controls :]
            total += int(turns)
    return total
