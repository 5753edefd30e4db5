"""Validation of format strings in files, which must only display values.

``str.format`` follows any attributes and items, such as ``{x.ctypes.__init__.__globals__}``.
Programs of this process may use them, like any Python code; files may not.
"""

import re
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]

# Attributes of arrays that are allowed.
ATTRIBUTES = ("shape", "dtype", "ndim", "size", "real", "imag", "T")
# Widths and precisions with more digits would exhaust memory.
_LONG_NUMBER = re.compile(r"\d{5,}")
# Maximum nesting of fields in str.format.
_MAX_DEPTH = 2


def verify_format(fmt: str, *, depth: int = 1) -> None:
    """Raise an error unless a format string in a file can only display values.

    Fields may have items, and the attributes of arrays in `ATTRIBUTES`:
    ``"{x[0].shape}"`` passes, and ``"{x.__class__}"`` does not.

    Args:
        depth: nesting depth of the string in format specifications; 1 for the outermost.

    Raises:
        ValueError: for a field with another attribute, a width of more than four digits, or deeply
            nested fields; names it.
    """
    for _, name, specification, _ in string.Formatter().parse(fmt):
        if name is None:
            continue
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"the format string {fmt!r} has more than two levels of nested fields. Use "
                "one level."
            )
        _, parts = formatter_field_name_split(name)
        for is_attribute, part in parts:
            if is_attribute and part not in ATTRIBUTES:
                raise ValueError(
                    f"the format string {fmt!r} uses the attribute '{part}', expected one of "
                    f"{', '.join(ATTRIBUTES)}"
                )
        if _LONG_NUMBER.search(specification or ""):
            raise ValueError(
                f"the format string {fmt!r} has a width of more than four digits. Use a "
                "smaller width."
            )
        verify_format(specification or "", depth=depth + 1)
