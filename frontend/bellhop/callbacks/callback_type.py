"""Flavours of callback: what their calls are to JAX, to the compiler and in errors.

A flavour is one object, such as ::

    PURE = Pure("pure_callback")

and ``pure_callback(f, float)(x)`` is ``PURE.call(f, (x,), {}, results)``, which binds::

    y = bellhop_pure_callback[target=pure_callback f] x

The object's methods are the rules of that primitive.  Its ``kind`` is what passes and the runtime
treat calls by, its ``target_type`` what programs and saved files keep of the function.
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
from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops, keep_rules_around
from bellhop._jax.private import (
    InputOutputEffect,
    hold_weakly_in_caches,
    register_effect,
    register_ordered_effect,
)
from bellhop.arguments.signature import check_call
from bellhop.base.source import user_site
from bellhop.base.types import Aval, Operand
from bellhop.callbacks.eager import call_with_arrays
from bellhop.callbacks.linear_map import is_perturbed
from bellhop.callbacks.spmd_errors import split_call
from bellhop.callbacks.vmap_method import call_each, call_with_batch
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget, flatten_arguments
from bellhop.compiler.jax_callback_lowering import is_delegated, lower_to_jax_callback
from bellhop.compiler.lower_in_jax_jit import check_single_platform, lower_callback
from bellhop.compiler.lowering_context import current_lowering
from bellhop.mesh.custom_call_sharding import is_partitioned, lower_on_first_device
from bellhop.mesh.manual_axes import vary_types_like
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations
from bellhop.tracing.program_order import register_ordered_form
from bellhop.tracing.repeated_calls import drop_repeated_effects


class CallbackEffect(Effect):
    """Orders the calls that carry it as the program does."""

    def __str__(self) -> str:
        return "Callback"


register_ordered_effect(CallbackEffect)
register_effect(InputOutputEffect)
hold_weakly_in_caches(CallbackTarget)
ordered_effect = CallbackEffect()
input_output_effect = InputOutputEffect()

# Of a function: the types of the leaves of its result, and their structure.
Results = tuple[tuple[Any, ...], Any]
NO_RESULTS: Results = (), jax.tree.structure(None)


class CallbackType:
    """One flavour; a subclass has rules of its own.

    Attributes:
        name: what the user calls; errors, pictures, profiles and saved files have it.
        kind: one of ``bellhop_mlir.dialects.callback_kinds``.
        effects: those of a call; ``ordered_effect`` may be among them.
        n_arguments: how many of the operands are arguments of the function; None for all.
        target_type: what calls the function.
        advice: what else to say where a function does not take the arguments of a call.
        partial_eval: the rule for ``jax.checkpoint``; None for JAX's own.
        primitive: what a program has for a call.
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
        """Make a flavour.

        Args:
            name: what the user calls.
            primitive: what jaxprs say, where it is not that.
            target_type: what calls the function.
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
        """Call a function with pytrees of arrays; ``options`` are attributes of its target.

        Raises:
            TypeError: naming the function and the argument that is no array.
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
        """Return what calls a function; ``options`` are attributes of it.

        Raises:
            TypeError: where the function does not take such arguments.
        """
        avals, out_tree = results
        target = self.target_type(
            flavour=self.name,
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
        """Call a target, and return what its function does."""
        return jax.tree.unflatten(target.out_tree, self.primitive.bind(*leaves, target=target))

    def run(self, *leaves: Operand, target: CallbackTarget) -> list[Any]:
        """Call right away, where no program is being traced."""
        return [jnp.asarray(result) for result in call_with_arrays(target, leaves)]

    def abstract_eval(
        self, *avals: Aval, target: CallbackTarget
    ) -> tuple[Sequence[Any], frozenset[Effect]]:
        """Return the types of the results, and the effects."""
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
        """Call for a mapped axis as the target's ``vmap_method`` says."""
        return call_with_batch(self.primitive.bind, operands, dims, target)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Return the results, and zero tangents of them, where the flavour allows that."""
        self.check_tangents(tangents, target)
        results = self.primitive.bind(*primals, target=target)
        return results, [ad.Zero(jax.typeof(result).to_tangent_aval()) for result in results]

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Refuse differentiated values, since what has side effects has no derivative."""
        if any(map(is_perturbed, tangents)):
            raise target.side_effect_error()

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> Sequence[Any]:
        """Refuse what only a function said to be linear gets to: nothing says that it is."""
        del cotangents, operands
        raise target.derivative_error()

    def lower(
        self, ctx: mlir.LoweringRuleContext, *operands: ir.Value, target: CallbackTarget
    ) -> Sequence[Any]:
        """Lower a call to our dialect, or in programs of JAX's own to what these can hold."""
        lowering = current_lowering()
        kind = "tap" if target.asynchronous else self.kind
        if lowering is None:
            check_single_platform(ctx.module_context, str(target))
        if target.partitioned and lowering is None and is_partitioned(ctx.module_context):
            # JAX's callback is one that XLA leaves to each device; there is no order among these.
            lower_to_jax_callback(ctx, target, kind, operands, None)
            ctx.set_tokens_out(ctx.tokens_in)
            return []
        delegates = lowering is None and is_delegated(ctx.module_context.platforms[0])
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
    """Calls that may be merged and dropped; derivatives are those of a rule around them."""

    kind = "pure"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        keep_rules_around(self.primitive)

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Refuse differentiated values where a result would have a derivative."""
        differentiated = any(type(tangent) is not ad.Zero for tangent in tangents)
        if differentiated and any(map(_is_inexact, target.result_avals)):
            raise target.derivative_error()


class SideEffects(CallbackType):
    """Calls that are made exactly once; in a plain ``jax.jit`` they have no order."""

    effects = frozenset({input_output_effect})

    def __init__(self, name: str, *, primitive: str | None = None, **options: Any) -> None:
        super().__init__(name, primitive=primitive, **options)
        ordered = _InProgramOrder(name, primitive=f"{primitive or name}_in_order", **options)
        ordered.kind = self.kind
        register_ordered_form(self.primitive, ordered.primitive, ordered.effects)


class _InProgramOrder(CallbackType):
    """Calls that are made exactly once, in program order."""

    # By the ordered effect alone, JAX would run branches that are not taken.
    effects = frozenset({input_output_effect, ordered_effect})


class Ordered(_InProgramOrder):
    """Calls that are made exactly once, in program order, which elements of a batch have not."""

    def batch(
        self, operands: Sequence[Any], dims: Sequence[Any], *, target: CallbackTarget
    ) -> tuple[list[Any], Sequence[Any]]:
        """Refuse a mapped axis."""
        del operands, dims
        raise target.order_error()


class Report(CallbackType):
    """Calls without results that show values to Python: primal ones, in program order."""

    kind = "debug"
    effects = frozenset({ordered_effect})

    def check_tangents(self, tangents: Sequence[Any], target: CallbackTarget) -> None:
        """Allow all: nobody sees tangents."""

    def transpose(
        self, cotangents: Sequence[Any], *operands: Operand, target: CallbackTarget
    ) -> Sequence[Any]:
        """Refuse tangents, which a function said to be linear shows."""
        del cotangents, operands
        raise target.tangent_error()

    def partial_eval(
        self, saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], eqn: JaxprEqn
    ) -> tuple[Any, ...]:
        """Report when the arguments are first known, and only then."""
        del saveable
        if any(unknown):
            return None, eqn, [], [], checkpoint_residuals(instantiated, eqn)
        return eqn, None, [], [], []


def checkpoint_residuals(instantiated: Sequence[bool], eqn: JaxprEqn) -> list[Any]:
    """Return the residuals that an equation under ``jax.checkpoint`` needs, which is unknown."""
    return [var for var, yes in zip(eqn.invars, instantiated, strict=True) if not yes]


def _is_inexact(aval: Aval) -> bool:
    return jnp.issubdtype(aval.dtype, jnp.inexact)


# Calls by which each device raises what the first one's call raised.
_COMBINING = SideEffects("combining")
