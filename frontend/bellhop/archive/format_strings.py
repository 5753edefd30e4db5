"""Format strings that a file may have: they show values, and lead to nothing else.

``str.format`` follows attributes and items wherever they lead, ``{x.ctypes.__init__.__globals__}``
say.  A program of this process may do so, as any Python code; a file may not.
"""

import re
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]

# Attributes of arrays that are arrays, or describe one.
ATTRIBUTES = ("shape", "dtype", "ndim", "size", "real", "imag", "T")
# A width or a precision: with more digits the text would not fit into memory.
_LONG_NUMBER = re.compile(r"\d{5,}")
# Fields in one another, as str.format has them.
_DEEPEST = 2


def verify_format(fmt: str, *, depth: int = 1) -> None:
    """Refuse a format string unless its fields are names, items and the known attributes.

    Args:
        fmt: as of ``str.format``.
        depth: how many format strings it is in, itself among them.

    Raises:
        ValueError: naming the field that is refused.
    """
    for _, name, specification, _ in string.Formatter().parse(fmt):
        if name is None:
            continue
        if depth > _DEEPEST:
            raise ValueError(f"the format string {fmt!r} has fields in fields in fields. Use one.")
        _, parts = formatter_field_name_split(name)
        for is_attribute, part in parts:
            if is_attribute and part not in ATTRIBUTES:
                raise ValueError(
                    f"the format string {fmt!r} asks for the attribute '{part}'; format strings of "
                    f"files take {', '.join(ATTRIBUTES)}"
                )
        if _LONG_NUMBER.search(specification or ""):
            raise ValueError(
                f"the format string {fmt!r} has a width of more than four digits. Use less."
            )
        verify_format(specification or "", depth=depth + 1)
