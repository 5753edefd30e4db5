"""Limits on module text that MLIR's parser can read safely.

The parser trusts its input.  Deep nesting overflows its stack and aborts the process; the time for
a number grows with the square of its digits, and no signal interrupts it.  So the text is checked
first::

    [[[[ ...  20 000 brackets      VerificationError: its brackets are nested deeper than 400
    1000 ...  100 000 digits       VerificationError: it has a number of more than 80 digits
"""

import re

from bellhop_mlir.errors import VerificationError

# Maximum nesting of brackets. The parser overflows at some thousands; programs have dozens.
_MAX_DEPTH = 400
# Maximum digits of a number; the widest array types have 39.
_MAX_DIGITS = 80

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=|[][(){}<>]|(?P<defined>^\s*[#!][\w.]+) *=|\{-#'
    rf"|(?P<number>\d{{{_MAX_DIGITS + 1},}}|0x[\da-fA-F]{{{_MAX_DIGITS + 1},}})|[#!][\w.]+",
    re.M,
)
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}


def verify_text(text: str, *, may_name_attributes: bool = True) -> None:
    """Check that MLIR's parser can read a text without crashing or hanging.

    Args:
        text: text of a module.
        may_name_attributes: whether the text may define aliases of attributes and types, as in
            ``#a = [1]``, and resources (``{-#``).

    Raises:
        VerificationError: for brackets nested deeper than 400, with the nesting in aliases, for a
            number of more than 80 digits, and for a definition that is not allowed.
    """
    depths = dict.fromkeys(_CLOSING.values(), 0)
    # Depth of each alias, since aliases hide nesting.
    named: dict[str, int] = {}
    name = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["number"]:
            raise VerificationError(f"the module has a number of more than {_MAX_DIGITS} digits")
        if token in _CLOSING:
            depths[_CLOSING[token]] -= 1
            continue
        if match["defined"] or token == "{-#":
            if not may_name_attributes:
                raise VerificationError(
                    f"the module defines the alias {token.strip()}, which is not supported"
                )
            name = (match["defined"] or "").strip()
            continue
        inside = 0
        if token in depths:
            depths[token] += 1
        else:
            inside = named.get(token, 0)
            if token == name:
                # An alias is not used in its own definition, so that has ended.
                name = ""
        depth = sum(depths.values()) + inside
        if depth > _MAX_DEPTH:
            raise VerificationError(f"the module's brackets are nested deeper than {_MAX_DEPTH}")
        if name:
            named[name] = max(named.get(name, 0), depth + 1)
