"""Loops and conditionals, of bellhop and of JAX."""

from hypothesis import strategies as st

from .expressions import expression
from .scope import Kind, Scope
from .trees import Tree, tree


def loop(scope: Scope) -> None:
    """Draw a loop over integers that carries trees."""
    carried = [tree(scope) for _ in range(scope.one_of(1, 0, 2))]
    names = [scope.fresh("c") for _ in carried]
    index, body = scope.fresh("i"), scope.fresh("body")
    inner = scope.inner()
    inner.variables[Kind.INT].append(index)
    _fill(inner, carried, names)
    scope.block(f"def {body}({', '.join([index, *names])}):", inner)
    stop = scope.one_of(*(str(scope.draw(st.integers(0, 3))), expression(scope, Kind.INT, 0)))
    bounds = scope.one_of(f"0, {stop}, 1", f"{stop}, 0, -1", f"1, {stop}, 2")
    whose = _whose(scope)
    _run(scope, f"{whose}.for_loop({bounds}{_progress(scope, whose)})({body})", carried)


def lax_loop(scope: Scope) -> None:
    """Draw a ``fori_loop``, or a ``scan`` over a vector."""
    carried = tree(scope)
    name, index, body = scope.fresh("c"), scope.fresh("i"), scope.fresh("body")
    # JAX's own control flow holds no gates.
    inner = scope.inner(wires=0)
    if scope.variables[Kind.VECTOR] and scope.chance(2):
        inner.variables[Kind.FLOAT].append(index)
        carried.bind(inner, name)
        inner.some()
        element = expression(inner, Kind.FLOAT, 1)
        inner.lines.append(f"return {carried.text(inner)}, {element}")
        scope.block(f"def {body}({name}, {index}):", inner)
        result, elements = scope.fresh("r"), scope.fresh("v")
        init, over = carried.text(scope), expression(scope, Kind.VECTOR, 0)
        scope.lines.append(f"{result}, {elements} = jax.lax.scan({body}, {init}, {over})")
        scope.variables[Kind.VECTOR].append(elements)
    else:
        inner.variables[Kind.INT].append(index)
        carried.bind(inner, name)
        inner.some()
        inner.lines.append(f"return {carried.text(inner)}")
        scope.block(f"def {body}({index}, {name}):", inner)
        result, stop = scope.fresh("r"), expression(scope, Kind.INT, 0)
        init = carried.text(scope)
        scope.lines.append(f"{result} = jax.lax.fori_loop(0, {stop}, {body}, {init})")
    carried.bind(scope, result)


def while_loop(scope: Scope) -> None:
    """Draw a loop with a condition, in which Python may be called too."""
    carried, name, count = tree(scope), scope.fresh("c"), scope.fresh("i")
    test, body = scope.fresh("test"), scope.fresh("body")
    limit = scope.draw(st.integers(0, 3))
    for function, result in ((test, None), (body, carried)):
        # Gates have no place in a condition.
        inner = scope.inner(wires=0 if result is None else scope.wires)
        inner.variables[Kind.INT].append(count)
        carried.bind(inner, name)
        inner.some(most=1 if result is None else 3)
        if result is None:
            inner.lines.append(f"return {count} < {limit}")
        else:
            inner.lines.append(f"return {count} + 1, {carried.text(inner)}")
        scope.block(f"def {function}({count}, {name}):", inner)
    result, first = scope.fresh("r"), expression(scope, Kind.INT, 0)
    whose = _whose(scope)
    made = (
        f"{whose}.while_loop({test}{_progress(scope, whose)})({body})"
        f"({first}, {carried.text(scope)})"
    )
    scope.lines.append(f"_, {result} = {made}")
    carried.bind(scope, result)


def conditional(scope: Scope) -> None:
    """Draw a conditional with two or three branches that give trees of one structure."""
    given = tree(scope)
    form = scope.one_of("cond", "elifs", "switch", "lax.cond", "lax.switch")
    count = 2 if form in ("cond", "lax.cond") else 3
    names = []
    for _ in range(count):
        inner = scope.inner(wires=0 if "lax" in form else scope.wires)
        inner.some()
        inner.lines.append(f"return {given.text(inner)}")
        names.append(scope.fresh("branch"))
        scope.block(f"def {names[-1]}():", inner)
    first, second, *third = names
    pred, index = expression(scope, Kind.BOOL, 1), expression(scope, Kind.INT, 1)
    result = scope.fresh("r")
    if form == "cond":
        made = f"{_whose(scope)}.cond({pred}, {first}, {second})()"
    elif form == "elifs":
        other = expression(scope, Kind.BOOL, 1)
        made = f"bellhop.cond({pred}, {first}, {second}, [({other}, {third[0]})])()"
    elif form == "switch":
        choice = scope.fresh("choice")
        scope.lines += [
            f"{choice} = bellhop.switch({index})({first})",
            f"{choice}.branch(1)({second})",
            f"{choice}.branch(-2)({third[0]})",
        ]
        made = f"{choice}()"
    elif form == "lax.cond":
        made = f"jax.lax.cond({pred}, {first}, {second})"
    else:
        made = f"jax.lax.switch({index}, [{', '.join(names)}])"
    scope.lines.append(f"{result} = {made}")
    given.bind(scope, result)


def _whose(scope: Scope) -> str:
    """Draw whose control flow it is; PennyLane's is compiled by qjit."""
    return "bellhop" if scope.traits.jit else scope.one_of("bellhop", "qml")


def _progress(scope: Scope, whose: str) -> str:
    return ", progress='loop'" * (whose == "bellhop" and scope.chance(6))


def _fill(inner: Scope, carried: list[Tree], names: list[str]) -> None:
    """Write a body that takes and returns trees of the same structure."""
    for part, name in zip(carried, names, strict=True):
        part.bind(inner, name)
    inner.some()
    texts = [part.text(inner) for part in carried]
    inner.lines.append(f"return {', '.join(texts) or None}")


def _run(scope: Scope, made: str, carried: list[Tree]) -> None:
    result = scope.fresh("r")
    inits = ", ".join(part.text(scope) for part in carried)
    scope.lines.append(f"{result} = {made}({inits})")
    for place, part in enumerate(carried):
        part.bind(scope, f"{result}[{place}]" if len(carried) > 1 else result)
