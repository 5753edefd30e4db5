"""Programs that contain only JAX operations, which skip Bellhop's passes.

``qjit(lambda x: 2 * x)`` has no callback, circuit or region.  Such a program is lowered once, from
its jaxpr, as a part of the module of the ``jax.jit`` that runs it::

    func.func public @main(%table: tensor<2xui32>, %x: tensor<f64>) -> tensor<f64> {
      %0 = stablehlo.multiply %cst, %x : tensor<f64>
      return %0 : tensor<f64>
    }

Other programs are lowered to a separate module, which the passes transform and ``merge_program``
copies.
The MLIR text of a classical program, ``f.mlir``, is built on first access.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Primitive, Var, primitives
from jax.interpreters.mlir import ir

from bellhop.base.ir_display import LazyText
from bellhop.compiler.program import Code, Program
from bellhop.jaxprs.equations import inner_jaxprs
from bellhop.settings.loop_simplification import MISCOUNTS_LONG_STEPS
from bellhop_mlir.region_name import RegionName
from bellhop_mlir.transforms.straight_line.outline_scalars import OutlineScalars

# JAX's public primitives include no callbacks. Sharding constraints need the checks of the passes.
_JAX_PRIMITIVES = frozenset(
    value for value in vars(primitives).values() if isinstance(value, Primitive)
) - {primitives.sharding_constraint_p}

# XLA compiles a long block fast enough if it has at most this number of scalar kernels.
_FEW_KERNELS = 4


def is_classical(closed: ClosedJaxpr) -> bool:
    """Return whether a traced program needs none of Bellhop's passes.

    Such a program has no side effects; at any depth, it has only equations that JAX alone can
    lower, and no block with many scalar operations, which XLA compiles slowly without the pass
    outline-scalars.
    """
    return not closed.jaxpr.effects and all(
        all(map(_is_jax_equation, block.eqns)) and not _has_long_scalar_code(block)
        for block in _iterate_blocks(closed.jaxpr)
    )


def _iterate_blocks(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yield a jaxpr and all jaxprs nested in it; once if several equations share one."""
    blocks = [jaxpr]
    seen = {id(jaxpr)}
    while blocks:
        block = blocks.pop()
        yield block
        for eqn in block.eqns:
            for inner in inner_jaxprs(eqn):
                if id(inner) not in seen:
                    seen.add(id(inner))
                    blocks.append(inner)


def _is_jax_equation(eqn: JaxprEqn) -> bool:
    """Return whether JAX alone can lower an equation, apart from jaxprs inside of it.

    False for callbacks, circuits, regions, transfers to a device, and for primitives that
    ``jax.lax`` does not export, such as sharding constraints. True for a loop or a ``jit`` whose
    body calls a callback: the caller visits inner jaxprs.
    """
    primitive, params = eqn.primitive, eqn.params
    if primitive is primitives.jit_p:
        return RegionName.parse(params["name"]) is None
    if primitive is primitives.device_put_p:
        return all(device is None for device in params["devices"])
    return primitive in _JAX_PRIMITIVES


def _has_long_scalar_code(block: Jaxpr) -> bool:
    """Return whether a block has so much scalar code that XLA compiles it slowly.

    If so, the program needs the pass outline-scalars, which puts scalar operations into functions.

    Args:
        block: jaxpr of the program, of a branch or of a loop's body; inner jaxprs do not count.
    """
    # XLA makes a kernel for each scalar that is a result or has several uses, and recomputes in
    # each kernel everything that the scalar depends on.
    size = OutlineScalars().size
    if len(block.eqns) <= size:
        return False
    scalar = [eqn for eqn in block.eqns if _is_scalar(eqn)]
    if len(scalar) <= size:
        return False
    uses = Counter(atom for eqn in block.eqns for atom in eqn.invars if isinstance(atom, Var))
    results = {atom for atom in block.outvars if isinstance(atom, Var)}
    kernels = sum(uses[var] > 1 or var in results for eqn in scalar for var in eqn.outvars)
    return kernels > _FEW_KERNELS


def _is_scalar(eqn: JaxprEqn) -> bool:
    """Return whether each result of an equation has one element, of any rank."""
    return all(var.aval.shape.count(1) == len(var.aval.shape) for var in eqn.outvars)


def make_classical_program(
    closed: ClosedJaxpr, lower: Callable[[ClosedJaxpr], ir.Module]
) -> Program:
    """Build the `Program` of a jaxpr that needs none of Bellhop's passes.

    Nothing is lowered here: JAX lowers the jaxpr as a part of the ``jax.jit``.

    Args:
        closed: the jaxpr; the caller must keep it alive as long as the program may be lowered.
        lower: builds an MLIR module from the jaxpr, for users to inspect; called at the first
            access to the program's text.

    Returns:
        the program; its code has no module, but a weak reference to `closed`.
    """
    jaxpr = closed.jaxpr
    used = {atom for eqn in jaxpr.eqns for atom in eqn.invars if isinstance(atom, Var)}
    used.update(atom for atom in jaxpr.outvars if isinstance(atom, Var))
    code = Code(
        module=b"",
        tokens=0,
        out_avals=tuple(closed.out_avals),
        arguments=tuple(i for i, var in enumerate(jaxpr.invars) if var in used),
        simplifies_loops=_can_simplify_loops(jaxpr),
        jaxpr=weakref.ref(closed),
    )
    text = LazyText(lambda: lower(closed))
    return Program(code, closed, text, text, {}, ())


def _can_simplify_loops(jaxpr: Jaxpr) -> bool:
    """Return whether XLA's pass that simplifies loops compiles a classical program correctly."""
    return not MISCOUNTS_LONG_STEPS or not any(
        _has_long_step(eqn) for block in _iterate_blocks(jaxpr) for eqn in block.eqns
    )


def _has_long_step(eqn: JaxprEqn) -> bool:
    """Return whether the condition of a ``while`` reads an integer that may grow by more than one.

    `has_long_steps` finds such loops in modules.
    """
    if eqn.primitive is not primitives.while_p:
        return False
    condition, body = (eqn.params[name].jaxpr for name in ("cond_jaxpr", "body_jaxpr"))
    read = {atom for each in condition.eqns for atom in each.invars if isinstance(atom, Var)}
    step_by_one = {
        (each.invars[0], each.outvars[0])
        for each in body.eqns
        if each.primitive in (primitives.add_p, primitives.sub_p)
        and isinstance(each.invars[0], Var)
        and isinstance(each.invars[1], Literal)
        and each.invars[1].val in (1, -1)
    }
    carried = zip(
        condition.invars[eqn.params["cond_nconsts"] :],
        body.invars[eqn.params["body_nconsts"] :],
        body.outvars,
        strict=True,
    )
    return any(
        variable in read
        and variable.aval.shape == ()
        and jnp.issubdtype(variable.aval.dtype, jnp.integer)
        and after is not before
        and (before, after) not in step_by_one
        for variable, before, after in carried
    )
