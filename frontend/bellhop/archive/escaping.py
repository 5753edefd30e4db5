"""Text from files in errors and signatures: terminals obey control characters in it."""


def escape_controls(text: str) -> str:
    r"""Replace characters that are not printable, except newlines and tabs, by escapes.

    ``"\x1b[2J"`` becomes ``"\\x1b[2J"``. Newlines and tabs are in docstrings and in lists of names.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
