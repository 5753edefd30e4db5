"""What tests of bars share: reading what was shown, and loops that have one."""

import re

import jax.numpy as jnp

import bellhop

# A line as tqdm leaves it: description, count and total.
_LINE = re.compile(r"([^\r\n]*?):? *(?:\d+%\|.*?\| (\d+)/(\d+)|(\d+)it) \[")


def lines(text):
    """Return what each line showed last: description, count, and total or None."""
    shown = []
    for line in text.split("\n"):
        found = _LINE.match(line.rstrip("\r").rpartition("\r")[2])
        if found:
            name, count, total, alone = found.groups()
            shown.append((name, int(count or alone), int(total) if total else None))
    return shown


def summed(n, progress="sum"):
    return bellhop.for_loop(0, n, 1, progress=progress)(lambda i, total: total + i)(0)


def doubled(x, n=6, progress="loop"):
    return bellhop.for_loop(0, n, 1, progress=progress)(lambda i, y: 2 * y)(x)


XS = jnp.arange(1.0, 4.0)
