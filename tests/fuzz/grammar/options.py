"""What a program is compiled with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from .scope import Traits


@dataclass(frozen=True)
class Options:
    """How a program is compiled, and what it begins with for that.

    Attributes:
        decorator: the line above its function.
        head: its first statements.
        seeded: whether calls with the same arguments give the same.
    """

    decorator: str
    head: tuple[str, ...] = ()
    seeded: bool = False


def options(draw: Callable[[Any], Any], traits: Traits) -> Options:
    """Draw what a program is compiled with."""
    if traits.jit:
        return Options("@jax.jit")
    chosen = ["autograph=True"] * traits.autograph
    head = []
    seeded = draw(st.integers(0, 3)) == 3
    if seeded:
        chosen.append(f"seed={draw(st.sampled_from((7, 0, 2**64 - 1)))}")
    if not traits.derivative and not traits.mapped:
        if draw(st.integers(0, 4)) == 4:
            chosen.append(draw(st.sampled_from(("static_argnums=1", "static_argnames=('n',)"))))
            head.append("n = jnp.int64(n)")
        if draw(st.integers(0, 4)) == 4:
            chosen.append(f"donate_argnums={draw(st.sampled_from(('2', '(2, 3)')))}")
    decorator = f"@bellhop.qjit({', '.join(chosen)})" if chosen else "@bellhop.qjit"
    return Options(decorator, tuple(head), seeded)
