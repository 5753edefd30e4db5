"""Functions inside a program: transformed, mapped, compiled on their own, called by callbacks."""

from dataclasses import replace

from .expressions import expression
from .scope import Kind, Scope

ROWS = "jnp.array([0.3, 0.8])"


def function(scope: Scope) -> None:
    """Draw a function of a number and the value of a transformation of it."""
    form = scope.one_of(
        "jit", "checkpoint", "qjit", "vmap", "grad", "callback", "jvp", "accelerate"
    )
    if form == "qjit" and (scope.traits.jit or scope.in_circuit):
        form = "jit"
    traits = replace(
        scope.traits,
        derivative=scope.traits.derivative or form in ("grad", "jvp"),
        mapped=scope.traits.mapped or form == "vmap",
        jit=scope.traits.jit or form == "callback",
    )
    # What a callback calls is traced when it is called, by JAX: it sees nothing that is traced now.
    unknown = {kind: [] for kind in Kind}
    inner = scope.inner(
        wires=0,
        traits=traits,
        # A derivative computes again what is in a checkpoint.
        repeated=scope.repeated
        or form in ("vmap", "callback")
        or (form == "checkpoint" and scope.traits.derivative),
        **({"variables": unknown, "in_circuit": True} if form == "callback" else {}),
    )
    name, argument = scope.fresh("h"), scope.fresh("x")
    inner.variables[Kind.FLOAT].append(argument)
    inner.some()
    inner.lines.append(f"return {expression(inner, Kind.FLOAT)}")
    scope.block(f"def {name}({argument}):", inner)
    value = expression(scope, Kind.FLOAT, 1)
    if form == "callback":
        value = f"jax.lax.stop_gradient({value})"
        made = f"bellhop.pure_callback(lambda x: np.asarray(jax.jit({name})(x)), float)({value})"
    elif form == "vmap":
        made = f"jnp.sum(jax.vmap({name})({ROWS} * {value}))"
    elif form == "jvp":
        made = f"jax.jvp({name}, ({value},), (jnp.float64(1.0),))[1]"
    else:
        whose = "bellhop" if form in ("qjit", "accelerate") else "jax"
        more = scope.one_of("", ', dev="cpu:1"') if form == "accelerate" else ""
        made = f"{whose}.{form}({name}{more})({value})"
    scope.add(Kind.FLOAT, made)
