"""Validation of format strings in files, which must only display values.

``str.format`` follows any attributes and items, such as ``{x.ctypes.__init__.__globals__}``.
Programs of this process may use them, like any Python code; files may not.
"""

import json
import re
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from typing import Any

import numpy as np

from bellhop.errors import format_value

# Attributes of arrays that are allowed.
ATTRIBUTES = ("shape", "dtype", "ndim", "size", "real", "imag", "T")
# Widths and precisions with more digits would exhaust memory.
_LARGEST_WIDTH = 9999
# Sum of the widths and precisions of all fields.
_LARGEST_TOTAL = 10**6
# Maximum nesting of fields in str.format.
_MAX_DEPTH = 2
_NUMBER = re.compile(r"\d+")


def verify_format(fmt: str) -> None:
    """Raise an error unless a format string in a file can only display values.

    Fields may have items, and the attributes of arrays in `ATTRIBUTES`:
    ``"{x[0].shape}"`` passes, and ``"{x.__class__}"`` does not.

    Raises:
        ValueError: for a field with another attribute, a width of more than four digits, widths of
            more than a million characters together, or deeply nested fields; names it.
    """
    _verify_fields(fmt, depth=1)


def _verify_fields(fmt: str, *, depth: int) -> int:
    """Verify the fields of a format string; return the sum of their widths and precisions.

    The width of a nested field, such as ``{:{width}}``, is known only when values are formatted,
    when `format_limited` checks it. Here it counts as 9999.

    Args:
        fmt: the format string.
        depth: nesting depth of the string in format specifications; 1 for the outermost.

    Raises:
        ValueError: as `verify_format`.
    """
    total = 0
    for _, name, specification, _ in string.Formatter().parse(fmt):
        if name is None:
            continue
        if depth > _MAX_DEPTH:
            raise ValueError(
                f"the format string {_shorten(fmt)} has more than two levels of nested fields. Use "
                "at most two, such as {x:{width}}."
            )
        _, parts = formatter_field_name_split(name)
        for is_attribute, part in parts:
            if is_attribute and part not in ATTRIBUTES:
                raise ValueError(
                    f"the format string {_shorten(fmt)} uses the attribute '{part}', expected one "
                    f"of {', '.join(ATTRIBUTES)}; bellhop.load accepts others only with trust=True"
                )
        if depth == _MAX_DEPTH:
            total += _LARGEST_WIDTH
        total += _verify_widths(specification or "")
        total += _verify_fields(specification or "", depth=depth + 1)
        if total > _LARGEST_TOTAL:
            raise ValueError(
                f"the format string {_shorten(fmt)} has widths of more than {_LARGEST_TOTAL} "
                f"characters together, where a nested field counts as {_LARGEST_WIDTH}. Use "
                "smaller widths, or fewer nested fields."
            )
    return total


def _verify_widths(specification: str) -> int:
    """Sum the numbers in a format specification: its width and its precision.

    For example ``"10.3f"`` gives 13.

    Raises:
        ValueError: for a number of more than four digits.
    """
    numbers = _NUMBER.findall(specification)
    if any(len(number) > len(str(_LARGEST_WIDTH)) for number in numbers):
        raise ValueError(
            f"the format specification {_shorten(specification)} has a width or precision of "
            "more than four digits. Use a smaller number."
        )
    return sum(map(int, numbers))


class _LimitedFormatter(string.Formatter):
    """Formatter that rejects widths and precisions of more than four digits.

    It checks them when it formats a value, so also a width that another value determines, as in
    ``{:{width}}``.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a value, unless its specification has a number of more than four digits.

        Raises:
            ValueError: for such a number, a width or precision.
        """
        _verify_widths(format_spec)
        return str(super().format_field(value, format_spec))


def format_limited(fmt: str, *args: Any, **kwargs: Any) -> str:
    """Fill a verified format string of an untrusted file, as ``str.format`` does.

    Raises:
        ValueError: for a width of more than four digits that a value determines.
    """
    return _LimitedFormatter().vformat(fmt, args, kwargs)


def verify_print_options(text: str = "{}") -> None:
    """Raise an error unless NumPy print options in a file are valid, without ``formatter``.

    Args:
        text: the options as JSON.

    Raises:
        ValueError: for JSON that is not a dictionary, a ``formatter``, or a precision of more than
            four digits.
        TypeError, ValueError, LookupError: for options that NumPy rejects, when they are set or
            when an array is shown.
    """
    options = json.loads(text)
    # Bellhop saves no functions, and an empty dictionary of formatters has none.
    if type(options) is not dict or options.get("formatter"):
        raise ValueError(
            f"the file is damaged: its NumPy print options {_shorten(text)} must be a dictionary "
            "from option names to numbers or strings, without 'formatter'. Save the program again."
        )
    precision = options.get("precision")
    if precision is not None and not (type(precision) is int and 0 <= precision <= _LARGEST_WIDTH):
        raise ValueError(
            f"the NumPy print options have the precision {format_value(precision)}, expected an "
            f"integer from 0 to {_LARGEST_WIDTH}. Set another precision in numpy.printoptions."
        )
    with np.printoptions(**options):
        for dtype in (float, complex, bool, int):
            str(np.array([[0], [1]], dtype))
        str(np.array([np.inf, np.nan]))


def _shorten(text: str) -> str:
    """Return the ``repr`` of a string, cut after 200 characters of the string."""
    return repr(text) if len(text) <= 200 else f"{text[:200]!r}..."
