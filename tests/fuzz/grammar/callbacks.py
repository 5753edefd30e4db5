"""Calls of Python, of every flavour.

The name of a callback in the notes says which promise its calls have:

* "o", and all that is printed: once each, in program order;
* "w": the same, but no order in a plain ``jax.jit``;
* "i", "j": once each, in the order of all calls of this letter;
* "t": once each, in the order of the taps;
* "u": once each;
* "p": they may be dropped, merged and hoisted;
* "q": none.
"""

from collections.abc import Callable

from tests.needs import PYTORCH

from .calls import MODES
from .expressions import constant, expression
from .scope import Kind, Scope
from .trees import tree

Statement = Callable[[Scope], None]


def _argument(scope: Scope, depth: int = 1) -> str:
    """Draw a value to give away; one that may be differentiated is none to those without rule."""
    text = tree(scope).text(scope, depth)
    if not scope.traits.derivative:
        return text
    return f"jax.tree.map(jax.lax.stop_gradient, {text})"


def _stem(scope: Scope, name: str, call: str) -> str:
    """Return the promise of a call: outside of qjit each kind of JAX's has its own order."""
    if name == "w" and scope.traits.jit:
        return "u"
    if name == "o" and scope.traits.is_of_jax and call.startswith("jax."):
        return "i" if "io_callback" in call else "j"
    return name


def _for_effect(name: str, call: str) -> Statement:
    """Make the statement of a callback without results."""

    def statement(scope: Scope) -> None:
        noted = f"functools.partial(note, {scope.fresh(_stem(scope, name, call))!r})"
        # A tap is left the batch, in which numbers that are not mapped have no axis.
        computes = not (name == "t" and scope.traits.mapped)
        scope.lines.append(call.format(noted, tree(scope, computes=computes).text(scope)))

    return statement


def _with_result(name: str, call: str) -> Statement:
    """Make the statement of a callback that gives a changed tree."""

    def statement(scope: Scope) -> None:
        shape = tree(scope, computes=not call.startswith("jax."))
        given, got = scope.fresh("given"), scope.fresh("got")
        text = shape.text(scope)
        if scope.traits.derivative:
            text = f"jax.tree.map(jax.lax.stop_gradient, {text})"
        function = "into" if "buffer" in call else "steps"
        # In a plain `jax.jit` XLA makes pure calls of loops without iterations, JAX's own too.
        unpromised = scope.repeated or (name == "p" and scope.traits.jit)
        stem = "q" if unpromised else _stem(scope, name, call)
        noted = f"functools.partial({function}, {scope.fresh(stem)!r})"
        scope.lines += [f"{given} = {text}", f"{got} = {call.format(noted, given)}"]
        shape.bind(scope, got)

    return statement


def _pure_with_rule(scope: Scope) -> None:
    kind = scope.one_of(Kind.FLOAT, *(k for k in [Kind.VECTOR] if scope.variables[k]))
    name, factor = scope.fresh("wave"), constant(scope)
    value = expression(scope, kind, 1)
    like = "float" if kind is Kind.FLOAT else value
    slope = f"{factor} * jnp.cos({factor} * {{}})"
    scope.lines += [
        f"{name} = bellhop.pure_callback(lambda x: np.sin({factor} * x), {like})",
        f"{name}.jvp(lambda x, dx: ({name}(*x), {slope.format('x[0]')} * dx[0]))"
        if scope.chance(2)
        else f"{name}.fwd(lambda x: ({name}(x), x))\n"
        f"{name}.bwd(lambda x, dy: {slope.format('x')} * dy)",
    ]
    scope.lines[-1:] = scope.lines[-1].split("\n")
    scope.add(kind, f"{name}({value})")


def _io_without_result(scope: Scope) -> None:
    noted = f"functools.partial(note, {scope.fresh(_stem(scope, 'w', ''))!r})"
    scope.lines.append(f"bellhop.io_callback({noted}, None, {_argument(scope)})")


def _print(scope: Scope) -> None:
    values = ", ".join(
        expression(scope, scope.one_of(Kind.INT, Kind.BOOL), 1) for _ in range(scope.one_of(1, 2))
    )
    fields = "{} " * (values.count(", ") + 1)
    name = scope.fresh("o")
    jax = "bellhop" if scope.traits.is_of_jax else scope.one_of("bellhop", "jax")
    scope.lines.append(f"{jax}.debug.print('{name} {fields}', {values}{_ordered(jax)})")


def _ordered(whose: str) -> str:
    return ", ordered=True" if whose == "jax" else ""


def _torch(scope: Scope) -> None:
    kind = scope.one_of(Kind.FLOAT, *(k for k in [Kind.VECTOR] if scope.variables[k]))
    name, factor, function = scope.fresh("torch"), constant(scope), scope.one_of("sin", "tanh")
    value = expression(scope, kind, 1)
    mode = scope.one_of("", "", "", *(f"torch.{mode}" for mode in MODES))
    if PYTORCH.is_here:
        scope.lines.append("import torch")
        text = f"lambda x: torch.{function}({factor} * x)"
        if mode.startswith("torch.device"):
            # PyTorch's devices cannot be used as decorators.
            text = f"within({mode}, {text})"
        elif mode:
            text = f"{mode}({text})"
        scope.lines.append(f"{name} = bellhop.call_torch({text})")
    else:
        # Seeds draw the same programs everywhere.
        scope.lines.append(f"{name} = lambda x: jnp.{function}({factor} * x)")
    scope.add(kind, f"{name}({value})")


def _fuse(scope: Scope) -> None:
    """Draw a call that may raise, with views of its arguments; one of them is large."""
    # Outside of qjit the exceptions of JAX's callbacks are text.
    of_jax = (
        ("p", "jax.pure_callback({0}, {2}, {1}, {2}, vmap_method='sequential')"),
        ("o", "jax.debug.callback({}, {}, {}, ordered=True)"),
        ("o", "jax.experimental.io_callback({0}, None, {1}, {2}, ordered=True)"),
    )
    with_order = ("o", "bellhop.io_callback({0}, None, {1}, {2}, ordered=True)")
    name, call = scope.one_of(
        ("o", "bellhop.debug.callback({}, {}, {})"),
        *(() if scope.traits.mapped else [with_order]),
        *(() if scope.traits.is_of_jax else of_jax),
        *(() if scope.traits.mapped else [("w", "bellhop.io_callback({0}, None, {1}, {2})")]),
        ("p", "bellhop.pure_callback({0}, {2}, {1}, {2})"),
        ("p", "bellhop.buffer_callback({0}, {2}, vmap_method='sequential')({1}, {2})"),
    )
    given, got = scope.fresh("given"), scope.fresh("got")
    function = "fuse_into" if "buffer" in call else "fuse"
    noted = f"functools.partial({function}, {scope.fresh(_stem(scope, name, call))!r})"
    array = f"jnp.full({scope.one_of(2, 1000)}, {expression(scope, Kind.FLOAT, 0)})"
    value = f"jax.lax.stop_gradient({array})" if scope.traits.derivative else array
    made = call.format(noted, expression(scope, Kind.INT, 0), given)
    scope.lines += [f"{given} = {value}", f"{got} = {made}"]
    if name == "p":
        # Nobody's results need not be computed.
        scope.add(Kind.FLOAT, f"{got}[1]")


def _region(scope: Scope) -> None:
    kind = scope.one_of(Kind.FLOAT, *(k for k in [Kind.VECTOR] if scope.variables[k]))
    name = scope.fresh("region")
    inner = scope.inner(variables={k: [] for k in Kind} | {kind: ["x"]})
    place = scope.one_of('dev="cpu:1"', 'dev="cpu:0"', "")
    scope.lines.append(
        f"{name} = bellhop.accelerate(lambda x: {expression(inner, kind, 2)}, {place})"
    )
    scope.add(kind, f"{name}({expression(scope, kind, 1)})")


def _assert(scope: Scope) -> None:
    scope.lines.append(f"bellhop.debug_assert({expression(scope, Kind.INT, 0)} > -9, 'never')")


PURE: tuple[Statement, ...] = (
    _pure_with_rule,
    _with_result("p", "bellhop.pure_callback({0}, {1}, {1})"),
    _region,
    _with_result("p", "jax.pure_callback({0}, {1}, {1}, vmap_method='sequential')"),
    _with_result("p", "bellhop.buffer_callback({0}, {1}, vmap_method='sequential')({1})"),
    _with_result(
        "p", "bellhop.buffer_callback({0}, {1}, vmap_method='sequential', in_place=True)({1})"
    ),
    _assert,
    _torch,
)

EFFECTS: tuple[Statement, ...] = (
    _for_effect("o", "bellhop.debug.callback({}, {})"),
    _for_effect("o", "bellhop.callback({})({})"),
    _for_effect("t", "bellhop.tap({}, {})"),
    _for_effect("t", "bellhop.callback({}, asynchronous=True)({})"),
    _for_effect("o", "jax.debug.callback({}, {}, ordered=True)"),
    _for_effect("u", "jax.debug.callback({}, {})"),
    _print,
    _fuse,
)

# Not under `vmap` of conditionals, or at all.
EFFECTS_WITH_RESULTS: tuple[Statement, ...] = (
    _with_result("w", "bellhop.io_callback({0}, {1}, {1})"),
    _with_result(
        "w",
        "bellhop.buffer_callback({0}, {1}, has_side_effect=True, vmap_method='sequential')({1})",
    ),
    _io_without_result,
    _with_result("o", "bellhop.io_callback({0}, {1}, {1}, ordered=True)"),
    _with_result("o", "jax.experimental.io_callback({0}, {1}, {1}, ordered=True)"),
    _with_result("u", "jax.experimental.io_callback({0}, {1}, {1})"),
    _with_result("o", "bellhop.host_callback.call({0}, {1}, result_shape={1})"),
    _with_result("p", "jax.experimental.buffer_callback.buffer_callback({0}, {1})({1})"),
)


def callback(scope: Scope) -> None:
    """Draw a call of Python."""
    effects = () if scope.repeated else EFFECTS
    if not scope.repeated and not scope.traits.mapped:
        effects += EFFECTS_WITH_RESULTS
    scope.one_of(*PURE[:2], *effects, *PURE[2:])(scope)
