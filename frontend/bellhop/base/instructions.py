"""Kinds of instructions in the user's code, by which errors are explained."""

import dis
from types import CodeType

_STORES = ("STORE_SUBSCR", "STORE_SLICE")


def stores_item(code: CodeType, offset: int) -> bool:
    """Return whether an instruction stores items, as ``x[0] = 1`` and ``x += 1`` do.

    Args:
        code: code of a Python function.
        offset: offset of the instruction in bytes.
    """
    for instruction in dis.get_instructions(code):
        if instruction.offset == offset:
            is_augmented = instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
            return instruction.opname in _STORES or is_augmented
    return False
