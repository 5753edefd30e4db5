"""The private names of JAX that transform jaxprs, and go through them, for jax 0.10 to 0.12.

``dce`` removes dead code from a jaxpr, here from that of
``lambda x, y: (sin(x), 2.0 * y)``.  ``transpose_jaxpr`` transposes a linear jaxpr, here that of
``lambda t: 3.0 * t``::

    dce(closed, used=[True, False], keep=[False, False])
        -> { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }, [True, False]
    transpose_jaxpr(linear, [UndefinedPrimal(f64[])], cotangents=[2.0])
        -> [6.0]

Each name, what it is for, and why no public name serves:

* ``bind_equation`` and ``EquationContext``: evaluate one equation of a jaxpr with its place in the
  user's source.  The public ``eval_jaxpr`` evaluates all of a jaxpr's.
* ``jvp_jaxpr``, ``partial_eval_jaxpr_nounits`` and ``convert_constvars_jaxpr``: transform the jaxpr
  that a primitive carries.  The public ``jax.jvp`` and ``jax.linearize`` take functions, and
  evaluate them.
* ``lower_high_primitives``: what a ``jit`` of JAX does about high-level primitives.
* ``transpose_jaxpr`` and ``dce``: transpose a jaxpr, and remove its dead code.  The public
  ``jax.linear_transpose`` evaluates the equations that are not linear, such as gates.
* ``find_equation`` and ``unwrap_tracer``: what computes a traced value, and the constant that it
  stands for.  JAX shows these in error messages only.
* ``Traced._consts``: the values of other traced functions that a function takes without being given
  them.  Public is only how many inputs its jaxpr has.
* ``DynamicJaxprTracer``: the class of values while a jaxpr is traced.  The public ``Tracer`` is a
  base of it.
* ``pxla._dce_jaxpr``: a cache that keeps programs, and so users' functions, for ever.  Public JAX
  clears all of its caches or none.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax._src import core, source_info_util  # noqa: TID251
from jax._src.interpreters import ad, partial_eval, pxla  # noqa: TID251
from jax.extend.core import ClosedJaxpr, Jaxpr

jvp_jaxpr = ad.jvp_jaxpr
partial_eval_jaxpr_nounits = partial_eval.partial_eval_jaxpr_nounits
PROGRAM_TRACER = partial_eval.DynamicJaxprTracer


def dce(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """Remove dead code from a jaxpr.

    Args:
        closed: the jaxpr.
        used: for each result, whether it is used.
        keep: for each input, whether it stays an input although nothing needs it.

    Returns:
        the jaxpr of the used results, and for each input of ``closed`` whether it takes it.
    """
    jaxpr, needed = partial_eval.dce_jaxpr(closed.jaxpr, list(used), list(keep))
    return ClosedJaxpr(jaxpr, closed.consts), list(needed)


def lower_high_primitives(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a jaxpr with JAX's high-level primitives replaced by what they stand for.

    Since jax 0.12 ``jnp.searchsorted`` and others are such primitives.  Only a ``jit`` replaces
    them when it is lowered, where it sees them: not in a jaxpr that a primitive of ours carries.
    """
    if not getattr(closed.jaxpr, "is_high", False):
        return closed
    return partial_eval.lower_jaxpr2(closed)


class EquationContext:
    """Trace what stands for an equation with its place in the user's source, and its options.

    Each equation of a program is: a generator would take twice the time.
    """

    def __init__(self, eqn: Any) -> None:
        names = source_info_util.current_name_stack() + eqn.source_info.name_stack
        self._source = source_info_util.user_context(eqn.source_info.traceback, name_stack=names)
        self._options = eqn.ctx.manager

    def __enter__(self) -> None:
        self._options.__enter__()
        self._source.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._source.__exit__(*raised)
        self._options.__exit__(*raised)


def bind_equation(eqn: Any, *operands: Any) -> Sequence[Any]:
    """Evaluate an equation with other operands; return its results.

    Where a program is traced, one with operands of the same types is written again as it is, which
    takes a fifth of the time.
    """
    trace = core.trace_ctx.trace
    if (
        isinstance(trace, partial_eval.DynamicJaxprTrace)
        and _is_plain(eqn)
        # Others may be of types that are none of JAX's.
        and all(map(_is_typed, operands, eqn.invars))
    ):
        source = source_info_util.current()
        tracers = [trace.to_jaxpr_tracer(operand, source) for operand in operands]
        if all(t.aval == atom.aval for t, atom in zip(tracers, eqn.invars, strict=True)):
            avals = [var.aval for var in eqn.outvars]
            return trace.emit_eqn(tracers, avals, eqn.primitive, eqn.params, eqn.effects, source)
    params = eqn.primitive.get_bind_params(eqn.params)
    results = eqn.primitive.bind(*operands, **params)
    return results if eqn.primitive.multiple_results else [results]


def _is_typed(operand: Any, atom: Any) -> bool:
    return isinstance(operand, core.Tracer) or operand is getattr(atom, "val", None)


def _is_outlined(eqn: Any) -> bool:
    """Tell whether an equation is a ``jit`` that stays one."""
    return eqn.primitive.name == "jit" and not eqn.params["inline"]


def _is_plain(eqn: Any) -> bool:
    """Tell whether binding an equation writes it, and nothing else."""
    primitive = eqn.primitive
    return not (
        type(primitive) is not core.Primitive
        or eqn.effects
        or (primitive in partial_eval.custom_staging_rules and not _is_outlined(eqn))
        or primitive in partial_eval.forwarding_rules
        or primitive in partial_eval.const_fold_rules
        or primitive.ref_allocating
        or primitive.is_high(*[atom.aval for atom in eqn.invars], **eqn.params)
    )


def transpose_jaxpr(
    closed: ClosedJaxpr, inputs: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Transpose a linear jaxpr: return cotangents of its inputs that are ``UndefinedPrimal``."""
    return list(ad.backward_pass(closed.jaxpr, False, closed.consts, inputs, cotangents))


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants and how many carried values a ``scan`` has, by its parameters."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    # Since jax 0.11.
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


def convert_constvars_jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    """Return a closed jaxpr as one whose constants are its first inputs."""
    return partial_eval.convert_constvars_jaxpr(closed.jaxpr)


def unwrap_tracer(value: Any) -> Any:
    """Return the constant, or the tracer of an outer trace, that a tracer stands for; or itself."""
    return core.full_lower(value)


def find_equation(tracer: Any) -> tuple[Any, int]:
    """Return the equation that made a tracer, and which of its results that is.

    The equation is None for an argument, and where another transformation is under way.
    """
    if not isinstance(tracer, partial_eval.DynamicJaxprTracer) or tracer.parent is None:
        return None, 0
    places = [var is tracer.val for var in tracer.parent.outvars]
    return tracer.parent, places.index(True)


class LeakedValue(NamedTuple):
    """A value of one traced function that another one uses.

    Attributes:
        type: its abstract value.
        created: ``file:line`` of what computed it; None for an argument of a function that we
            traced.
        used: ``file:line`` of what takes it first; None where that is a result, or a circuit.
    """

    type: Any
    created: str | None
    used: str | None


def find_leaked_values(traced: Any) -> list[LeakedValue]:
    """Return the values of other traced functions that a traced function uses."""
    jaxpr = traced.jaxpr.jaxpr
    values = []
    # JAX hands them over as the first of the arguments, and arrays from outside with them.
    for value, variable in zip(traced._consts, jaxpr.invars, strict=False):
        if not isinstance(value, core.Tracer):
            continue
        uses = (_source_line(eqn.source_info) for eqn in jaxpr.eqns if variable in eqn.invars)
        made = _source_line(value._line_info)
        values.append(LeakedValue(jax.typeof(value), made, next(uses, None)))
    return values


def _source_line(source: Any) -> str | None:
    frame = source_info_util.user_frame(source.traceback)
    return None if frame is None else f"{frame.file_name}:{frame.start_line}"


def forget_lowering(jaxpr: Any) -> None:
    """Evict a jaxpr from the cache of ``pxla._dce_jaxpr``.

    Its key holds the jaxpr weakly, but since jax 0.11 its value holds the same jaxpr strongly, so
    the entry would stay for ever.
    """
    evict = getattr(getattr(pxla, "_dce_jaxpr", None), "evict_weakref", None)
    if evict is not None:
        evict(jaxpr)
