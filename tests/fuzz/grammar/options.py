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
        chosen = draw(st.sampled_from(("", "keep_unused=True", "inline=True", "donate_argnums=2")))
        plain = traits.derivative or traits.mapped or not chosen
        return Options("@jax.jit" if plain else f"@functools.partial(jax.jit, {chosen})")
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
            donated = ("donate_argnums=2", "donate_argnums=(2, 3)", "donate_argnames='v'")
            chosen.append(draw(st.sampled_from(donated)))
        if draw(st.integers(0, 4)) == 4:
            chosen.append("keep_unused=True")
    decorator = f"@bellhop.qjit({', '.join(chosen)})" if chosen else "@bellhop.qjit"
    return Options(decorator, tuple(head), seeded)
