"""Limits on module text that MLIR's parser can read safely.

The parser trusts its input.  Deep nesting overflows its stack and aborts the process; the time for
a number grows with the square of its digits, and no signal interrupts it.  So the text is checked
first, in time that is linear in its length::

    [[[[ ...  20 000 brackets      VerificationError: its brackets are nested deeper than 400
    1000 ...  100 000 digits       VerificationError: it has a number of more than 80 digits
    1x1x ...   50 000 axes         VerificationError: it has an array type of 50000 axes

The check must divide the text into the same tokens as MLIR's lexer: text that only this module
takes for a comment or a string would hide brackets from the check.
"""

import re

from bellhop_mlir.errors import VerificationError

# Maximum nesting of brackets. The parser overflows at some thousands; programs have dozens.
_MAX_DEPTH = 400
# Maximum digits of a number; the widest array types have 39.
_MAX_DIGITS = 80

# Maximum number of axes, which NumPy has too.
_MAX_AXES = 64

# MLIR's lexer ends a comment at a carriage return, and some characters end a string or the text.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Possessive quantifiers: a string that does not end is read once, not once for each quote in it.
_STRING_OR_COMMENT = re.compile(
    r'(?P<string>"(?:[^"\\\n]++|\\.)*+(?P<end>"?))|(?P<comment>//[^\n]*+)'
)
_NUMBER = re.compile(r"0x[\da-fA-F]++|\d++", re.A)
_AXES = re.compile(r"(?:(?:\d++|\?)[ \t\n]*+x[ \t\n]*+)++", re.A)
_TOKEN = re.compile(
    r"->|[<>]=|#-\}|[][(){}<>]|(?P<defined>[#!][\w.$-]++)[ \t\n]*+=(?!=)|\{-#|[#!][\w.$-]++",
    re.A,
)
_CLOSING = {")": "(", "]": "[", "}": "{", ">": "<"}
# MLIR's parser recurses for each operator of an affine expression, without brackets.
# Locations are large and `save` writes none.
_NOT_IN_FILES = re.compile(r"\b(?:affine_map|affine_set|loc)\b(?=[ \t\n]*+[(<])", re.A)


def verify_text(text: str, *, allows_unsaved_syntax: bool = True) -> None:
    """Check that MLIR's parser can read a text without crashing or hanging.

    Args:
        text: text of a module.
        allows_unsaved_syntax: whether the text may have syntax that saved files do not have:
            aliases of attributes and types, as in ``#a = [1]``, resources (``{-#``), comments,
            locations and affine maps.

    Raises:
        VerificationError: for control characters other than newline and tab, for a string without
            an end, for brackets nested deeper than 400, with the nesting in aliases, for a number
            of more than 80 digits, for a type of more than 64 axes, and for syntax that is not
            allowed.
    """
    control = _CONTROL.search(text)
    if control:
        raise VerificationError(f"the module has the control character {control[0]!r}")
    code = _blank_strings_and_comments(text, may_comment=allows_unsaved_syntax)
    if any(len(match[0].removeprefix("0x")) > _MAX_DIGITS for match in _NUMBER.finditer(code)):
        raise VerificationError(f"the module has a number of more than {_MAX_DIGITS} digits")
    axes = max((match[0].count("x") for match in _AXES.finditer(code)), default=0)
    if axes > _MAX_AXES:
        raise VerificationError(
            f"the module has an array type of {axes} axes, expected {_MAX_AXES} at most"
        )
    unexpected = None if allows_unsaved_syntax else _NOT_IN_FILES.search(code)
    if unexpected:
        raise VerificationError(
            f"the module has '{unexpected[0]}', which saved programs do not have"
        )
    _verify_nesting(code, allows_unsaved_syntax=allows_unsaved_syntax)


def _blank_strings_and_comments(text: str, *, may_comment: bool) -> str:
    """Return a text with each string replaced by ``""`` and each comment by a space.

    ``may_comment`` allows comments.

    Raises:
        VerificationError: for a string without an end, and for a comment that is not allowed.
    """

    def blank(match: re.Match[str]) -> str:
        """Return the replacement of one string or comment."""
        if match["comment"] is None:
            if not match["end"]:
                raise VerificationError(f"the module has a string without an end: {match[0][:20]}")
            return '""'
        if not may_comment:
            raise VerificationError(
                f"the module has the comment {match[0][:20]}, which saved programs do not have"
            )
        return " "

    return _STRING_OR_COMMENT.sub(blank, text)


def _verify_nesting(code: str, *, allows_unsaved_syntax: bool) -> None:
    """Check the nesting of brackets, also of brackets in aliases.

    Args:
        code: text of a module, with blank strings and comments.
        allows_unsaved_syntax: whether the text may define aliases and resources.

    Raises:
        VerificationError: for brackets nested deeper than 400, and for a definition that is not
            allowed.
    """
    depths = dict.fromkeys(_CLOSING.values(), 0)
    # Depth of each alias, since aliases hide nesting.
    named: dict[str, int] = {}
    name = ""
    for match in _TOKEN.finditer(code):
        token = match[0]
        if token in _CLOSING:
            # A bracket that closes nothing must not hide the nesting of later brackets.
            opening = _CLOSING[token]
            depths[opening] = max(0, depths[opening] - 1)
            continue
        if match["defined"] or token == "{-#":
            if not allows_unsaved_syntax:
                what = f"the alias {match['defined']}" if match["defined"] else "resources ({-#)"
                raise VerificationError(f"the module defines {what}, which is not supported")
            name = match["defined"] or ""
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
