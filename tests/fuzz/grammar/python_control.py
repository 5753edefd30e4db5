"""Python's own control flow over values of the program, which autograph converts."""

from .expressions import expression
from .scope import Kind, Scope


def branches(scope: Scope) -> None:
    """Draw an ``if``, perhaps with an ``elif``, that changes a number."""
    name = _number(scope)
    tests = [expression(scope, Kind.BOOL, 1) for _ in range(scope.one_of(1, 2))]
    heads = [f"{'el' * bool(place)}if {test}:" for place, test in enumerate(tests)]
    for head in heads + ["else:"] * scope.one_of(1, 0):
        _block(scope, head, name)


def conditional_expression(scope: Scope) -> None:
    """Draw a conditional expression, with ``and``, ``or`` and ``not``."""
    first, second = (expression(scope, Kind.BOOL, 1) for _ in range(2))
    test = scope.one_of(first, f"{first} and {second}", f"not ({first} or {second})")
    one, other = (expression(scope, Kind.FLOAT, 1) for _ in range(2))
    scope.add(Kind.FLOAT, f"{one} if {test} else {other}")


def for_statement(scope: Scope) -> None:
    """Draw a loop over a range or a vector, perhaps one that is left early."""
    name, element = _number(scope), scope.fresh("i")
    count = expression(scope, Kind.INT, 0)
    form = scope.one_of("range", "vector", "progress", "enumerate")
    kind, over = Kind.INT, f"range({count})"
    if form == "progress":
        over = f"bellhop.progress({over}, 'loop')"
    elif form != "range" and scope.variables[Kind.VECTOR]:
        kind, over = Kind.FLOAT, expression(scope, Kind.VECTOR, 0)
        if form == "enumerate":
            over, element = f"enumerate({over})", f"{scope.fresh('i')}, {element}"
    _block(scope, f"for {element} in {over}:", name, (kind, element.split(", ")[-1]))


def while_statement(scope: Scope) -> None:
    """Draw a loop that counts, perhaps one that is left early."""
    name, count = _number(scope), scope.fresh("n")
    scope.lines.append(f"{count} = {expression(scope, Kind.INT, 0)}")
    head = f"while {count} < {scope.one_of(2, 3, 0)}:"
    _block(scope, head, name, (Kind.INT, count), f"{count} = {count} + 1")


def _number(scope: Scope) -> str:
    scope.add(Kind.FLOAT, expression(scope, Kind.FLOAT, 1))
    return scope.variables[Kind.FLOAT][-1]


def _block(
    scope: Scope, head: str, name: str, known: tuple[Kind, str] | None = None, first: str = ""
) -> None:
    """Write a block that changes a number; what it knows besides makes it the body of a loop."""
    inner = scope.inner()
    if known:
        inner.variables[known[0]].append(known[1])
    inner.lines += [first] * bool(first)
    inner.some()
    inner.lines.append(f"{name} = {expression(inner, Kind.FLOAT, 1)}")
    if known and scope.chance(3):
        leave = scope.one_of("break", "continue")
        inner.lines += [f"if {expression(inner, Kind.BOOL, 1)}:", f"    {leave}"]
        inner.lines.append(f"{name} = jnp.cos({name})")
    scope.block(head, inner)


STATEMENTS = (branches, for_statement, while_statement, conditional_expression)
