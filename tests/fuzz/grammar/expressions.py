"""Expressions of each kind; what they compute stays small, and far from where they jump."""

from collections.abc import Callable

from hypothesis import strategies as st

from .scope import Kind, Scope

CONSTANTS = (0.37, 1.3, -0.71, 2.19)


def constant(scope: Scope) -> str:
    return str(scope.one_of(*CONSTANTS))


def expression(scope: Scope, kind: Kind, depth: int = 2) -> str:
    """Draw an expression; a variable, where there is nothing more to it."""
    known = scope.variables[kind]
    if known and (not depth or not scope.chance(2)):
        return scope.one_of(*reversed(known))
    return RULES[kind](scope, depth - 1)


def _float(scope: Scope, depth: int) -> str:
    if depth < 0:
        return f"jnp.float64({constant(scope)})"

    def of(kind: Kind) -> str:
        return expression(scope, kind, depth)

    form = scope.one_of("constant", "product", "sum", "where", "vector", "int")
    if form == "product":
        return f"jnp.sin({constant(scope)} * {of(Kind.FLOAT)} * {of(Kind.FLOAT)})"
    if form == "sum":
        return f"jnp.cos({of(Kind.FLOAT)} - {of(Kind.FLOAT)})"
    if form == "where":
        return f"jnp.where({of(Kind.BOOL)}, {of(Kind.FLOAT)}, {of(Kind.FLOAT)})"
    if form == "vector" and scope.variables[Kind.VECTOR]:
        return f"jnp.sum({of(Kind.VECTOR)})"
    if form == "int":
        return f"jnp.float64({of(Kind.INT)} * 0.21)"
    return f"jnp.float64({constant(scope)})"


def _int(scope: Scope, depth: int) -> str:
    if depth < 0 or not scope.variables[Kind.INT]:
        return f"jnp.int64({scope.draw(st.integers(0, 3))})"
    left, right = (expression(scope, Kind.INT, depth) for _ in range(2))
    return f"({left} {scope.one_of('+', '-', '*')} {right}) % {scope.one_of(4, 3, 5)}"


def _bool(scope: Scope, depth: int) -> str:
    form = scope.one_of("int", "float", "not")
    if form == "not" and scope.variables[Kind.BOOL]:
        return f"jnp.logical_not({scope.one_of(*scope.variables[Kind.BOOL])})"
    if form == "float":
        return f"({expression(scope, Kind.FLOAT, depth)} > {constant(scope)}123)"
    return f"({expression(scope, Kind.INT, depth)} < {scope.draw(st.integers(0, 3))})"


def _vector(scope: Scope, depth: int) -> str:
    vector = expression(scope, Kind.VECTOR, 0)
    form = scope.one_of("sin", "float", "flip", "where")
    if form == "float":
        return f"jnp.cos({vector} + {expression(scope, Kind.FLOAT, depth)})"
    if form == "flip":
        return f"jnp.flip({vector})"
    if form == "where":
        pred, other = expression(scope, Kind.BOOL, depth), expression(scope, Kind.VECTOR, 0)
        return f"jnp.where({pred}, {vector}, {other})"
    return f"jnp.sin(2 * {vector})"


def _any(scope: Scope, depth: int) -> str:
    array, other = (expression(scope, Kind.ANY, 0) for _ in range(2))
    if scope.chance(2):
        return f"jnp.flip({array})"
    return f"jnp.where({expression(scope, Kind.BOOL, depth)}, {array}, {other})"


RULES: dict[Kind, Callable[[Scope, int], str]] = {
    Kind.FLOAT: _float,
    Kind.INT: _int,
    Kind.BOOL: _bool,
    Kind.VECTOR: _vector,
    Kind.ANY: _any,
}
