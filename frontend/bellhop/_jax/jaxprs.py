"""Private JAX functions that transform and traverse jaxprs, for jax 0.10 to 0.12.

``dce`` removes dead code from a jaxpr, for instance from the jaxpr of
``lambda x, y: (sin(x), 2.0 * y)``.  ``transpose_jaxpr`` transposes a linear jaxpr, for instance the
jaxpr of ``lambda t: 3.0 * t``::

    dce(closed, used=[True, False], keep=[False, False])
        -> { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }, [True, False]
    transpose_jaxpr(linear, [UndefinedPrimal(f64[])], cotangents=[2.0])
        -> [6.0]

Each name, its purpose, and the reason why no public name serves:

* ``bind_equation`` and ``EquationContext``: evaluate one equation of a jaxpr with its source
  location.  The public ``eval_jaxpr`` evaluates all equations.
* ``jvp_jaxpr``, ``partial_eval_jaxpr_nounits`` and ``convert_constvars_jaxpr``: transform the jaxpr
  that a primitive carries.  The public ``jax.jvp`` and ``jax.linearize`` take functions, and
  evaluate them.
* ``custom_lin_p``: the primitive of the linear part of a ``jax.custom_vjp`` function, which JAX can
  only transpose.
* ``lower_high_primitives``: replaces high-level primitives, as ``jax.jit`` does.
* ``transpose_jaxpr`` and ``dce``: transpose a jaxpr, and remove its dead code.  The public
  ``jax.linear_transpose`` evaluates the equations that are not linear, such as gates.
* ``find_equation`` and ``unwrap_tracer``: return the equation that computes a tracer, and the
  constant behind a tracer.  JAX shows these in error messages only.
* ``Traced._consts``: the tracers of outer functions that a traced function closes over.  The public
  API has only the number of inputs of its jaxpr.
* ``DynamicJaxprTracer``: the class of tracers in a jaxpr trace, a subclass of the public
  ``Tracer``.  ``LinearizeTracer``, ``JVPTracer``, ``JaxprTracer``, ``BatchTracer``, ``RematTracer``
  and ``ShardMapTracer``: the classes of tracers of transformations; the class is all that an error
  can tell of a value that left its transformation.
* ``pxla._dce_jaxpr``: a cache that never releases programs, and so users' functions.  The public
  ``jax.clear_caches`` clears all caches.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax._src import core, shard_map, source_info_util  # noqa: TID251
from jax._src.interpreters import (  # noqa: TID251
    ad,
    batching,
    partial_eval,
    pxla,
    remat,
)
from jax.extend.core import ClosedJaxpr, Jaxpr

jvp_jaxpr = ad.jvp_jaxpr
custom_lin_p = ad.custom_lin_p
partial_eval_jaxpr_nounits = partial_eval.partial_eval_jaxpr_nounits
PROGRAM_TRACER = partial_eval.DynamicJaxprTracer


def dce(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """Remove the equations of a jaxpr that do not contribute to its used results.

    Args:
        closed: the jaxpr.
        used: for each result, whether to keep it.
        keep: for each input, whether to keep it even if no remaining equation uses it.

    Returns:
        the jaxpr with the used results only, and, for each input of ``closed``, whether it is still
        an input.
    """
    jaxpr, needed = partial_eval.dce_jaxpr(closed.jaxpr, list(used), list(keep))
    return ClosedJaxpr(jaxpr, closed.consts), list(needed)


def lower_high_primitives(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace JAX's high-level primitives in a jaxpr by equations that can be lowered.

    Since jax 0.12 some functions, such as ``jnp.searchsorted``, are high-level primitives. The
    lowering of ``jax.jit`` replaces them, but not in a jaxpr that is a parameter of Bellhop's
    primitives.

    Args:
        closed: the jaxpr.

    Returns:
        the new jaxpr; the same object if there is nothing to replace.
    """
    if not getattr(closed.jaxpr, "is_high", False):
        return closed
    return partial_eval.lower_jaxpr2(closed)


class EquationContext:
    """Context manager that sets the source location and JAX options of an equation.

    Equations bound inside of it get the source location of `eqn`, so that errors name the user's
    line. It is a class, since a generator takes twice the time and this runs for each equation.

    Args:
        eqn: the jaxpr equation that is evaluated again.
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
    """Evaluate a jaxpr equation with new operands.

    While a program is traced, an equation whose operand types match is copied, which takes a fifth
    of the time of binding its primitive.

    Args:
        eqn: the equation.
        *operands: an array or tracer for each input variable of the equation.

    Returns:
        a list with an array or tracer for each output variable, even if there is only one.
    """
    trace = core.trace_ctx.trace
    if (
        isinstance(trace, partial_eval.DynamicJaxprTrace)
        and _is_plain(eqn)
        # Other operands may have types that JAX does not know.
        and all(map(_has_known_type, operands, eqn.invars))
    ):
        source = source_info_util.current()
        tracers = [trace.to_jaxpr_tracer(operand, source) for operand in operands]
        if all(t.aval == atom.aval for t, atom in zip(tracers, eqn.invars, strict=True)):
            avals = [var.aval for var in eqn.outvars]
            return trace.emit_eqn(tracers, avals, eqn.primitive, eqn.params, eqn.effects, source)
    params = eqn.primitive.get_bind_params(eqn.params)
    results = eqn.primitive.bind(*operands, **params)
    return results if eqn.primitive.multiple_results else [results]


def _has_known_type(operand: Any, atom: Any) -> bool:
    """Return whether an operand is a tracer, or the value of the literal ``atom``."""
    return isinstance(operand, core.Tracer) or operand is getattr(atom, "val", None)


def _is_outlined(eqn: Any) -> bool:
    """Return whether an equation is a ``jit`` that is not inlined."""
    return eqn.primitive.name == "jit" and not eqn.params["inline"]


def _is_plain(eqn: Any) -> bool:
    """Return whether an equation can be traced again by copying it, without ``bind``.

    False if ``bind`` may do more than append an equal equation: for equations with effects, and for
    primitives with a tracing rule of their own, except a ``jit`` that is not inlined.
    """
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
    """Evaluate the transpose of a jaxpr that is linear in some inputs.

    Args:
        closed: the jaxpr.
        inputs: ``UndefinedPrimal(aval)`` for each linear input, the value of each other input.
        cotangents: cotangent of each result of the jaxpr, an array or JAX's symbolic ``Zero``.

    Returns:
        a cotangent for each input: an array, or JAX's symbolic ``Zero`` for inputs that are not
        linear and for linear inputs on which no result depends.
    """
    return list(ad.backward_pass(closed.jaxpr, False, closed.consts, inputs, cotangents))


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Return the numbers of constants and of carried values of a ``scan`` equation.

    The constants, and then the carried values, are the first operands of the equation.

    Args:
        params: parameters of the ``scan`` equation.
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    # jax 0.11 and later.
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


def convert_constvars_jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    """Convert a closed jaxpr to a jaxpr whose first inputs are the constants."""
    return partial_eval.convert_constvars_jaxpr(closed.jaxpr)


def unwrap_tracer(value: Any) -> Any:
    """Unwrap a tracer if its transformation does not change the value in it.

    For example, ``jax.vmap`` may represent a value without batch axis by a tracer around it.

    Args:
        value: a tracer, or any other value.

    Returns:
        the constant, or the tracer of the outer transformation; `value` if it wraps nothing.
    """
    return core.full_lower(value)


def find_equation(tracer: Any) -> tuple[Any, int]:
    """Find the jaxpr equation that computes a tracer.

    Args:
        tracer: a tracer, or any other value.

    Returns:
        the equation and the tracer's index among its results. ``(None, 0)`` for arguments of the
        traced function, for tracers of other transformations, such as ``jax.grad``, and for values
        that are not tracers.
    """
    if not isinstance(tracer, partial_eval.DynamicJaxprTracer) or tracer.parent is None:
        return None, 0
    is_result = [var is tracer.val for var in tracer.parent.outvars]
    return tracer.parent, is_result.index(True)


class LeakedValue(NamedTuple):
    """Description of a tracer that is used in another traced function than its own.

    The attributes are shown in the error for such a tracer.

    Attributes:
        type: the tracer's abstract value.
        owner: the traced function or loop body that the tracer belongs to, ``'name' (file:line)``,
            or the function of a transformation, ``a function that jax.vmap maps``; None if unknown.
        created: ``file:line`` of the equation that computes the tracer, or None if unknown.
        is_argument: whether the tracer is an argument of `owner`.
        used: ``file:line`` of the first equation in the other function that uses the tracer, or
            None if unknown.
    """

    type: Any
    owner: str | None
    created: str | None
    is_argument: bool
    used: str | None


# By class of the tracer: the function in which values of a transformation are valid. The error of a
# leaked value says that it "was stored outside of" this function.
_TRANSFORMED_FUNCTIONS = {
    ad.LinearizeTracer: "a function that jax.grad or jax.linearize differentiates",
    ad.JVPTracer: "a function that jax.jvp or jax.jacfwd differentiates",
    partial_eval.JaxprTracer: "a function that jax.vjp or jax.linearize differentiates",
    batching.BatchTracer: "a function that jax.vmap maps",
    remat.RematTracer: "a function of jax.checkpoint",
    shard_map.ShardMapTracer: "a function of jax.shard_map",
}


def find_leaked_values(traced: Any) -> list[LeakedValue]:
    """Describe the tracers of other functions that a traced function closes over.

    Args:
        traced: JAX's ``Traced``, the result of ``jax.jit(f).trace(...)``.
    """
    jaxpr = traced.jaxpr.jaxpr
    values = []
    # The first inputs are closed-over tracers and closed-over arrays.
    for value, variable in zip(traced._consts, jaxpr.invars, strict=False):
        if not isinstance(value, core.Tracer):
            continue
        uses = (_source_line(eqn.source_info) for eqn in jaxpr.eqns if variable in eqn.invars)
        traced_value = _unwrap_transformations(value)
        # Only tracers of jaxpr traces have an equation and a source location.
        is_equation = isinstance(traced_value, partial_eval.DynamicJaxprTracer)
        created = _source_line(traced_value._line_info) if is_equation else None
        is_argument = isinstance(value, partial_eval.DynamicJaxprTracer) and created is None
        values.append(
            LeakedValue(
                jax.typeof(value), describe_owner(value), created, is_argument, next(uses, None)
            )
        )
    return values


def _unwrap_transformations(value: Any) -> Any:
    """Return the value that tracers of ``jax.grad``, ``jax.vmap`` etc. wrap.

    Args:
        value: a tracer of any class, or another value.

    Returns:
        a tracer of a jaxpr trace, an array, or a tracer that wraps no value.
    """
    while not isinstance(value, partial_eval.DynamicJaxprTracer):
        if isinstance(value, ad.JVPTracer | ad.LinearizeTracer):
            value = value.primal
        elif isinstance(value, batching.BatchTracer | remat.RematTracer | shard_map.ShardMapTracer):
            value = value.val
        else:
            break
    return value


def describe_owner(tracer: Any) -> str | None:
    """Describe the traced function or loop body to which a tracer belongs, for errors.

    Args:
        tracer: a tracer of any class, whose trace may have ended.

    Returns:
        ``'name' (file:line)``. Tracers of transformations do not know their function, and give for
        example ``a function that jax.vmap maps``; tracers of unknown classes give None.
    """
    if not isinstance(tracer, partial_eval.DynamicJaxprTracer):
        return _TRANSFORMED_FUNCTIONS.get(type(tracer))
    debug_info = tracer._trace.frame.debug_info
    name, _, site = debug_info.func_src_info.partition(" at ")
    return f"'{name}' ({site})" if site else f"'{name}'"


def _source_line(source: Any) -> str | None:
    """Return ``file:line`` of the user's frame in JAX's source info, or None."""
    frame = source_info_util.user_frame(source.traceback)
    return None if frame is None else f"{frame.file_name}:{frame.start_line}"


def forget_lowering(jaxpr: Any) -> None:
    """Evict a jaxpr from JAX's cache ``_dce_jaxpr``, so that the program can be freed.

    The cache key is a weak reference to the jaxpr. Since jax 0.11 the cached value references the
    same jaxpr, so the entry would never be released. Does nothing if the installed version of JAX
    lacks the cache.

    Args:
        jaxpr: jaxpr of a lowered program.
    """
    evict = getattr(getattr(pxla, "_dce_jaxpr", None), "evict_weakref", None)
    if evict is not None:
        evict(jaxpr)
