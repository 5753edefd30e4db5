"""Texts of modules that the guard and MLIR's lexer might divide differently.

python -m tests.fuzz.hostile.texts COUNT [SEED]   parses them, in a child process

Each text has brackets, digits or operators that end MLIR's parser unless the guard
(``bellhop_mlir/parser_limits.py``) sees them, between characters that may hide them.
"""

import collections
import random
import sys
import time

from tests.fuzz.hostile.children import in_child

SEPARATORS = (
    *(
        "//",
        "// ",
        "/",
        "\r",
        "\n",
        "\t",
        " ",
        "\x00",
        "\x0b",
        "\x0c",
        "\x1a",
        "\x7f",
        "\x85",
        "\u2028",
    ),
    *(
        '"',
        '\\"',
        '"a"',
        '"\\"',
        "'",
        "\\",
        "#",
        "#a = ",
        "#a-b = [1] ",
        "!a$ = ",
        "{-#",
        "#-}",
        "->",
    ),
    *(
        "<=",
        ">=",
        ")",
        "]",
        "}",
        ">",
        "%",
        "@",
        "é",
        "// \r",
        "//\n",
        '"//"',
        "func.func @f() { return }",
    ),
)
DEEP = 20_000
PAYLOADS = (
    "[" * DEEP + "]" * DEEP,
    "1" + "0" * 400_000,
    "tuple<" * DEEP + "i1" + ">" * DEEP,
    "affine_map<(d) -> (" + "-" * 200_000 + "d)>",
    "affine_map<(d) -> (d" + " + d" * 200_000 + ")>",
    "@a" + "::@a" * 1000,
    "[1, 2]",
)
# Seconds for the text of a megabyte, on a machine that does other work too.
MOST_SECONDS = 20


def draw_text(draw):
    """Return a module's text, in which an attribute is hidden or not."""

    def hide():
        return "".join(draw.choices(SEPARATORS, k=draw.choice((0, 0, 0, 0, 0, 0, 1, 1, 2, 3))))

    payload = draw.choice(PAYLOADS)
    body = f"module attributes {{{hide()}jax.b = {hide()}{payload}{hide()}}} {{{hide()}}}"
    if draw.random() < 0.2:
        body = f"{hide()}#x = {payload}{hide()} module attributes {{jax.b = #x}} {{}}"
    return hide() + body + hide()


def parse(first, count):
    """Parse texts; return how many were rejected or taken, or the text that took too long."""
    from bellhop_mlir.errors import VerificationError
    from bellhop_mlir.module_validation import parse_untrusted

    found = collections.Counter()
    for seed in range(first, first + count):
        text = draw_text(random.Random(seed))
        begin = time.process_time()
        try:
            parse_untrusted(text)
            found["taken"] += 1
        except VerificationError:
            found["rejected"] += 1
        if time.process_time() - begin > MOST_SECONDS:
            return f"timeout: seed {seed}"
    return ", ".join(f"{times} {outcome}" for outcome, times in sorted(found.items()))


def main(count, seed=0):
    """Parse drawn texts in a child process; return whether it ended as it should."""
    outcome = in_child(lambda: parse(seed, count), seconds=600)
    print(outcome)
    return "rejected" not in outcome


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
