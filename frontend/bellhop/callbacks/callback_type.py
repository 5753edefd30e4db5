"""Callback types: the JAX primitive of each callback function, and its rules.

A callback type is one object, such as ::

    PURE = Pure("pure_callback")

and ``pure_callback(f, float)(x)`` is ``PURE.call(f, (x,), {}, results)``, which binds::

    y = bellhop_pure_callback[target=pure_callback f] x

The object's methods are the rules of the primitive.  Passes and the runtime treat calls according
to its ``kind``.  Programs and saved files keep the function as a ``target_type``.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import Effect, JaxprEqn, Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jax.interpreters.mlir import ir
from jax.tree_util import PyTreeDef

from bellhop._jax.patches.batched_while_cond import patch_batched_while
from bellhop._jax.patches.checkpoint_effects import keep_effects_under_checkpoint
from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops, register_custom_jvp_primitive
from bellhop._jax.private import (
    InputOutputEffect,
    hold_weakly_in_caches,
    register_effect,
    register_ordered_effect,
)
from bellhop.arguments.accepted_arguments import check_call
from bellhop.base.source import user_site
from bellhop.base.types import Aval, Operand
from bellhop.callbacks.eager import call_with_arrays
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.callbacks.spmd_errors import split_call
from bellhop.callbacks.vmap_method import call_each, call_with_batch
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget, flatten_arguments
from bellhop.compiler.jax_callback_lowering import lower_to_jax_callback, uses_jax_callbacks
from bellhop.compiler.lower_in_jax_jit import check_single_platform, lower_callback
from bellhop.compiler.lowering_context import current_lowering
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero
from bellhop.mesh.custom_call_sharding import is_partitioned, lower_on_first_device
from bellhop.mesh.manual_axes import vary_types_like
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations
from bellhop.tracing.program_order import register_ordered_form
from bellhop.tracing.repeated_calls import drop_repeated_effects


class CallbackEffect(Effect):
    """JAX effect of calls that must keep program order among themselves.

    It is an ordered effect: JAX threads a token through the equations that carry it.
    """

    def __str__(self) -> str:
        return "Callback"


register_ordered_effect(CallbackEffect)
register_effect(InputOutputEffect)
hold_weakly_in_caches(CallbackTarget)
ordered_effect = CallbackEffect()
input_output_effect = InputOutputEffect()

# Types of the leaves of a function's result, and their tree structure.
Results = tuple[tuple[Any, ...], Any]
NO_RESULTS: Results = (), jax.tree.structure(None)


class CallbackType:
    """Base class of callback types: a JAX primitive with its rules.

    There is one object for each kind of call of each public function: ``PURE`` for
    ``pure_callback``, ``IO`` and ``ORDERED_IO`` for ``io_callback``. An equation of the primitive
    is one call. Its parameter ``target`` has the user's function. Its operands are the leaves of
    the function's arguments; further operands, behind the first `n_arguments`, are for Bellhop's
    runtime alone.

    Attributes:
        name: name of the public function, for errors, pictures, profiles and saved files.
        kind: one of ``bellhop_mlir.dialects.callback_kinds``, such as ``"pure"``.
        effects: JAX effects of a call; may contain ``ordered_effect``.
        n_arguments: number of leading operands that are arguments of the function; None for all.
        target_type: class of the targets that hold the function.
        advice: added to the error for a function that cannot take the arguments of a call.
        partial_eval: partial evaluation rule for ``jax.checkpoint``; None for JAX's default.
        primitive: the JAX primitive.
    """

    kind: str = "io"
    effects: frozenset[Effect] = frozenset()
    n_arguments: ClassVar[int | None] = None
    advice: ClassVar[str] = ""
    partial_eval: Callable[..., tuple[Any, ...]] | None = None

    def __init__(
        self,
        name: str,
        *,
        primitive: str | None = None,
        target_type: type[CallbackTarget] = CallbackTarget,
    ) -> None:
        """Create the primitive and register its rules.

        Args:
            name: name of the public function.
            primitive: name of the primitive in jaxprs, without prefix; None for `name`.
            target_type: class of the targets that hold the function.
        """
        self.name = name
        self.target_type = target_type
        self.primitive = Primitive(f"bellhop_{primitive or name}")
        self.primitive.multiple_results = True
        self.primitive.def_impl(self.run)
        self.primitive.def_effectful_abstract_eval(self.abstract_eval)
        batching.primitive_batchers[self.primitive] = self.batch
        ad.primitive_jvps[self.primitive] = self.jvp
        ad.primitive_transposes[self.primitive] = self.transpose
        if self.partial_eval is not None:
            pe.partial_eval_jaxpr_custom_rules[self.primitive] = self.partial_eval
        mlir.register_lowering(self.primitive, self.lower, cacheable=False)

    def call(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        results: Results = NO_RESULTS,
        **options: Any,
    ) -> Any:
        """Call a function as a callback: when the program runs, or now.

        With tracers, or while JAX traces, an equation with the call is added to the traced program;
        otherwise the function is called at once.

        Args:
            function: the user's function.
            args: its positional arguments, pytrees of arrays.
            kwargs: its keyword arguments, pytrees of arrays.
            results: types of the result's leaves, and its ``PyTreeDef``; by default the function
                returns None.
            options: further attributes of the target, such as ``vmap_method``.

        Returns:
            the result, a pytree of tracers or arrays.

        Raises:
            TypeError: naming the function, if an argument is not an array, or the function's
                signature does not accept the arguments.
        """
        leaves, in_tree = flatten_arguments(self.name, function, args, kwargs)
        return self.bind(self.target(function, in_tree, results, **options), leaves)

    def target(
        self,
        function: Callable[..., Any],
        in_tree: PyTreeDef,
        results: Results = NO_RESULTS,
        *,
        site: str | None = None,
        **options: Any,
    ) -> CallbackTarget:
        """Build the ``CallbackTarget``, which holds the user's function, its types and options.

        It is the parameter ``target`` of the primitive.

        Args:
            function: the user's function.
            in_tree: tree structure of ``(args, kwargs)``.
            results: as for `call`.
            site: ``file:line`` of the user's call; None to find it on the stack.
            options: further attributes of the target, such as ``vmap_method``.

        Raises:
            TypeError: if the function's signature does not accept the arguments.
        """
        avals, out_tree = results
        target = self.target_type(
            public_name=self.name,
            function=function,
            in_tree=in_tree,
            out_tree=out_tree,
            result_avals=avals,
            site=user_site() if site is None else site,
            **options,
        )
        if not isinstance(function, BuiltinFunction):
            args, kwargs = in_tree.children()
            count = target.n_first + len(args.children()) + (target.transforms is not None)
            names = [*kwargs.node_data()[1], *["device"] * target.takes_device]
            check_call(target.name_and_site, function, count, names, self.advice)
        return target

    def bind(self, target: CallbackTarget, leaves: Sequence[Any]) -> Any:
        """Bind the primitive: add the call to the traced program, or make it now.

        Args:
            target: the callback, from `target`.
            leaves: leaves of the callback's arguments, arrays or tracers.

        Returns:
            the result, a pytree of arrays or tracers.
        """
        return jax.tree.unflatten(target.out_tree, self.primitive.bind(*leaves, target=target))

    def run(self, *leaves: Operand, target: CallbackTarget) -> list[Any]:
        """Call a callback now, with concrete operands: the primitive's impl rule."""
        return [jnp.asarray(result) for result in call_with_arrays(target, leaves)]

    def abstract_eval(
        self, *avals: Aval, target: CallbackTarget
    ) -> tuple[Sequence[Any], frozenset[Effect]]:
        """Return the types of a call's results, and its effects.

        The primitive's abstract evaluation rule. The first use also installs the patches of JAX
        that such calls need.

        Raises:
            TypeError: for argument dtypes that callbacks do not support.
        """
        keep_effects_in_loops()
        forbid_calls_in_operations()
        if self.effects:
            keep_effects_under_checkpoint()
            drop_repeated_effects()
        if ordered_effect in self.effects:
            patch_batched_while()
        target.check_arguments(avals)
        return vary_types_like(avals, target.result_avals), self.effects

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Batch a call according to the ``vmap_method`` of its target: the batching rule.

        Args:
            operands: leaves of the arguments, some of them with a batch axis.
            dims: batch axis of each operand, or None.
            target: the callback for one batch element.

        Returns:
            the batched results, and their batch axes.

        Raises:
            NotImplementedError: if the target has no ``vmap_method``.
        """
        return call_with_batch(self.primitive.bind, operands, dims, target)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Call the function and return zero tangents, or raise an error: the JVP rule.

        Args:
            primals: the operands.
            tangents: their tangents, some of them symbolic zeros.
            target: the callback.

        Returns:
            the results, and a symbolic zero for each.

        Raises:
            DifferentiableCompileError: if `check_tangents` forbids the tangents.
        """
        self.check_tangents(tangents, target)
        results = self.primitive.bind(*primals, target=target)
        return results, [make_symbolic_zero(result) for result in results]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Raise an error if an argument of a call with side effects is differentiated.

        The JVP rule calls it; `Pure` and `DebugCall` override it.

        Args:
            tangents: tangents of the operands, some of them symbolic zeros.
            target: the callback, for the error.

        Raises:
            DifferentiableCompileError: if a tangent is not a symbolic zero.
        """
        if any(map(is_perturbed, tangents)):
            raise target.side_effect_error()

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> Sequence[Any]:
        """Raise an error, since a callback cannot be transposed: the transpose rule.

        JAX transposes a callback only inside a function that the user calls linear, and nothing
        shows that the callback is linear.

        Raises:
            DifferentiableCompileError: always.
        """
        del cotangents, operands
        raise target.transposition_error()

    def lower(
        self, ctx: mlir.LoweringRuleContext, *operands: ir.Value, target: CallbackTarget
    ) -> Sequence[Any]:
        """Lower a call to MLIR: the primitive's lowering rule.

        In a `qjit` program the call becomes an operation of Bellhop's dialect. In a plain
        ``jax.jit`` it becomes

        - JAX's own callback on each device, if ``target.partitioned`` is set and XLA partitions the
          program;
        - JAX's own callback on GPUs and TPUs;
        - a call on the first device, in other programs that XLA partitions;
        - a custom call of Bellhop's runtime in all other programs.

        A call that ``vmap`` has batched element by element becomes loops around such calls.

        Raises:
            NotImplementedError: in a plain ``jax.jit``, inside of a ``jax.shard_map`` over some of
                the mesh axes.
        """
        lowering = current_lowering()
        kind = target.to_call_kind(self.kind)
        if lowering is None:
            check_single_platform(ctx.module_context, str(target))
        if target.partitioned and lowering is None and is_partitioned(ctx.module_context):
            # XLA leaves JAX's callback to each device; calls of different devices have no order.
            lower_to_jax_callback(ctx, target, kind, operands, None)
            ctx.set_tokens_out(ctx.tokens_in)
            return []
        delegates = lowering is None and uses_jax_callbacks(ctx.module_context.platforms[0])
        if lowering is None and not delegates and is_partitioned(ctx.module_context):
            if not target.asynchronous:
                call, combine = split_call(
                    self.primitive, _COMBINING.primitive, target, len(operands)
                )
                return lower_on_first_device(ctx, call, operands, combine)
            call = functools.partial(self.primitive.bind, target=target)
            return lower_on_first_device(ctx, call, operands)
        if target.program_loops:
            each = functools.partial(call_each, self.primitive.bind, target=target)
            return mlir.lower_fun(lambda *args: each(args), multiple_results=True)(ctx, *operands)
        is_ordered = ordered_effect in self.effects
        token = ctx.tokens_in.get(ordered_effect) if is_ordered else None
        lower: Callable[..., Any] = lower_to_jax_callback if delegates else lower_callback
        if lowering is not None:
            lower = functools.partial(lowering.emit_call, n_arguments=self.n_arguments)
        results, token = lower(ctx, target, kind, operands, token)
        if token is not None:
            ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({ordered_effect: token})))
        return results


class Pure(CallbackType):
    """Callback type of pure calls, which the compiler may merge, move and drop.

    The calls themselves have no derivative. Derivative rules are defined around them, by
    ``jax.custom_jvp`` and similar functions.
    """

    kind = "pure"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        register_custom_jvp_primitive(self.primitive)

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Raise an error if an argument is differentiated and a result is inexact.

        A pure call has no derivative itself. Calls whose results are all integers or booleans are
        allowed: their tangents are zero.

        Raises:
            DifferentiableCompileError: if a tangent is not a symbolic zero and a result is inexact.
        """
        differentiated = any(type(tangent) is not ad.Zero for tangent in tangents)
        if differentiated and any(map(_is_inexact, target.result_avals)):
            raise target.derivative_error()


class SideEffects(CallbackType):
    """Callback type of calls that run exactly once; in a plain ``jax.jit`` they have no order.

    In qjit programs the transformation ``order_effects`` replaces such calls by calls of the type
    `_InProgramOrder`, which keep program order.
    """

    effects = frozenset({input_output_effect})

    def __init__(self, name: str, *, primitive: str | None = None, **options: Any) -> None:
        super().__init__(name, primitive=primitive, **options)
        ordered = _InProgramOrder(name, primitive=f"{primitive or name}_in_order", **options)
        ordered.kind = self.kind
        register_ordered_form(self.primitive, ordered.primitive, ordered.effects)


class _InProgramOrder(CallbackType):
    """Callback type of calls that run exactly once, in program order."""

    # With the ordered effect alone, JAX would run branches that are not selected.
    effects = frozenset({input_output_effect, ordered_effect})


class Ordered(_InProgramOrder):
    """Callback type of calls that run once, in program order, even in a plain ``jax.jit``.

    ``vmap`` raises an error, since batch elements have no order.
    """

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Raise an error, since batch elements have no order: the batching rule.

        Raises:
            ValueError: always.
        """
        del operands, dims
        raise target.order_error()


class DebugCall(CallbackType):
    """Callback type of calls that only look at values, such as printing and assertions.

    The calls have no results and keep program order. If arguments are differentiated, the function
    gets their primal values.
    """

    kind = "debug"
    effects = frozenset({ordered_effect})

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Accept differentiated arguments: the function gets their primal values."""

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> Sequence[Any]:
        """Raise an error, since the function would be called with tangents: transpose rule.

        JAX transposes a call only if arguments of the call are tangents.

        Raises:
            DifferentiableCompileError: always.
        """
        del cotangents, operands
        raise target.tangent_error()

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Partially evaluate a call under ``jax.checkpoint``, so that it runs once.

        JAX's rule for ``partial_eval_jaxpr_custom``: the call is made in the first pass if all
        arguments are known there, else in the second.

        Args:
            saveable: JAX's policy; unused, since the call has no results.
            unknown: for each operand, whether it is unknown in the first pass.
            instantiated: for each operand, whether the second pass has its value already.
            eqn: the equation of the call.

        Returns:
            the known equation or None; the unknown equation or None; two empty lists, since a call
            has no results; and the residuals.
        """
        del saveable
        if any(unknown):
            return None, eqn, [], [], checkpoint_residuals(instantiated, eqn)
        return eqn, None, [], [], []


def checkpoint_residuals(instantiated: Sequence[bool], eqn: JaxprEqn) -> list[Any]:
    """List the operands that ``jax.checkpoint`` must save for a recomputed equation.

    Args:
        instantiated: for each operand, whether the second pass has its value already.
        eqn: the equation that is executed in the second pass.

    Returns:
        the variables of all other operands, the residuals.
    """
    return [var for var, yes in zip(eqn.invars, instantiated, strict=True) if not yes]


def _is_inexact(aval: Aval) -> bool:
    """Return whether a type is floating-point or complex."""
    return jnp.issubdtype(aval.dtype, jnp.inexact)


# Calls with which every device raises the exception of the first device's call.
_COMBINING = SideEffects("combining")
