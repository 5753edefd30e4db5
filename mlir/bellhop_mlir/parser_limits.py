"""What MLIR's parser can read: text whose nesting and numbers end.

The parser trusts its input.  Nesting ends its stack, and with it the process; the time for a number
grows with the square of its digits, and no signal interrupts it.  So its text is looked at before::

    [[[[ ...  20 000 brackets      VerificationError: its brackets are nested deeper than 400
    1000 ...  100 000 digits       VerificationError: it has a number of more than 80 digits
"""

import re

from bellhop_mlir.errors import VerificationError

# Brackets in one another.  The parser's stack ends at some thousands; programs have dozens.
_DEEPEST = 400
# Those of the widest types that arrays have are 39.
_MOST_DIGITS = 80

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[<>]=|[][(){}<>]|(?P<defined>^\s*[#!][\w.]+) *=|\{-#'
    rf"|(?P<number>\d{{{_MOST_DIGITS + 1},}}|0x[\da-fA-F]{{{_MOST_DIGITS + 1},}})|[#!][\w.]+",
    re.M,
)
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}


def verify_text(text: str, *, may_name_attributes: bool = True) -> None:
    """Refuse text that the parser would not get to the end of; it looks at brackets and digits.

    Args:
        text: of a module.
        may_name_attributes: whether attributes and types may have names, as in ``#a = [1]``.

    Raises:
        VerificationError: saying why.
    """
    depths = dict.fromkeys(_CLOSING.values(), 0)
    # By names for attributes, what is nested looks flat.
    named: dict[str, int] = {}
    name = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["number"]:
            raise VerificationError(f"it has a number of more than {_MOST_DIGITS} digits")
        if token in _CLOSING:
            depths[_CLOSING[token]] -= 1
            continue
        if match["defined"] or token == "{-#":
            if not may_name_attributes:
                raise VerificationError(f"it defines {token.strip()}, which programs do not")
            name = (match["defined"] or "").strip()
            continue
        inside = 0
        if token in depths:
            depths[token] += 1
        else:
            inside = named.get(token, 0)
        depth = sum(depths.values()) + inside
        if depth > _DEEPEST:
            raise VerificationError(f"its brackets are nested deeper than {_DEEPEST}")
        if name:
            named[name] = max(named.get(name, 0), depth + 1)
