"""Whole programs, as Python source: a compiled function and its calls."""

from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from . import callbacks, circuits, control_flow, functions, options, python_control
from .calls import calls
from .expressions import expression
from .scope import Kind, Scope, Traits
from .trees import tree

PREAMBLE = Path(__file__).parents[1].joinpath("preamble.py").read_text()
ALL_TRAITS = (
    Traits(),
    Traits(derivative=True),
    Traits(mapped=True),
    Traits(derivative=True, mapped=True),
    Traits(circuits=False, jit=True),
    Traits(derivative=True, circuits=False, jit=True),
    Traits(mapped=True, circuits=False, jit=True),
    Traits(autograph=True),
    Traits(derivative=True, autograph=True),
    Traits(mapped=True, autograph=True),
)


def assignment(scope: Scope) -> None:
    """Draw a named value."""
    scope.add(kind := scope.one_of(*scope.kinds), expression(scope, kind))


def fill(scope: Scope, most: int) -> None:
    """Draw the statements of a block."""
    kinds = [callbacks.callback, assignment]
    if scope.wires:
        kinds += [circuits.gate] * 3
    if scope.depth > 0:
        kinds += [control_flow.loop, control_flow.conditional, control_flow.while_loop]
        kinds += [control_flow.lax_loop, functions.function]
        if scope.traits.autograph:
            kinds += python_control.STATEMENTS * 2
        if scope.traits.circuits and not scope.in_circuit:
            kinds += [circuits.circuit] * 2
    for _ in range(min(most, 1 + scope.depth)):
        # Failing programs are shrunk to what is drawn first: no more statements.
        if scope.draw(st.integers(0, 2 + 2 * max(scope.depth, 0))) == 0:
            break
        scope.one_of(*kinds)(scope)


@st.composite
def scripts(draw: Any) -> str:
    """Draw a program that anyone can run."""
    traits = draw(st.sampled_from(ALL_TRAITS))
    scope = Scope(draw, traits, fill, random=None if traits.derivative or traits.mapped else [])
    for kind, name in zip((Kind.FLOAT, Kind.INT, Kind.VECTOR, Kind.ANY), "xnva", strict=True):
        scope.variables[kind].append(name)
    chosen = options.options(draw, traits)
    scope.lines += chosen.head
    scope.some(6)
    results = [expression(scope, Kind.FLOAT), tree(scope).text(scope)]
    if scope.random:
        results.append(f"{{'random': [{', '.join(scope.random)}]}}")
    scope.lines.append(f"return {', '.join(results)}")
    whole = scope.inner()
    whole.block("def f(x, n, v, a):", scope, chosen.decorator)
    mode = f"# mode: {traits}"
    lines = calls(draw, traits, chosen.seeded)
    return "\n".join([PREAMBLE, "", mode, *whole.lines, "", "", *lines, ""])
