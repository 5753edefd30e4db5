"""Kinds of instructions in the user's code, by which errors are explained."""

import dis
from types import CodeType

_STORES = ("STORE_SUBSCR", "STORE_SLICE")


def is_in_place_assignment(code: CodeType, offset: int) -> bool:
    """Return whether a bytecode instruction assigns to an item or is an augmented assignment.

    For example ``x[0] = 1``, ``x[1:] = y`` and ``x += 1``.

    Args:
        code: code of a Python function.
        offset: offset of the instruction in bytes.

    Returns:
        True or False; False if the code has no instruction at the offset.
    """
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            is_augmented = instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
            return instruction.opname in _STORES or is_augmented
    return False
