"""Random keys of a program, with new seeds in each run."""

from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Effect, Primitive
from jax.interpreters import ad, mlir

from bellhop._jax.patches.checkpoint_rng import patch_while_checkpoint
from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop._jax.private import register_effect
from bellhop.base.types import PyTree
from bellhop.compiler.batching import register_sequential_batching
from bellhop.compiler.lower_in_jax_jit import lower_as_program
from bellhop.compiler.lowering_context import allow_bellhop_dialects, current_lowering
from bellhop.jaxprs.symbolic_zero import make_symbolic_zero
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations
from bellhop.tracing.state import offer_seed
from bellhop_mlir.dialects import quantum


class _RandomEffect(Effect):
    """The effect of random equations, so that JAX does not merge or hoist them.

    Attributes:
        is_repeatable: whether a program may be run again for a diagnosis; see
            ``Program.has_effects``.
    """

    is_repeatable = True

    def __str__(self) -> str:
        return "Random"

    __repr__ = __str__


def offer_device_seed(device: Any) -> None:
    """Offer a seed drawn from a PennyLane device's random generator to the program.

    The first seed that is offered while a program is traced is used for the program's random
    numbers. Nothing is drawn outside of ``qjit``, or if the user passed a seed to ``qjit``, or for
    a device without a generator.

    Args:
        device: PennyLane device; its option ``seed=`` seeds the generator, which a draw advances.
    """
    generator = getattr(device, "_rng", None)
    if generator is not None:
        offer_seed(lambda: int(generator.integers(2**63)))


# Under jax.checkpoint, random numbers are saved and only later equations are recomputed.
register_effect(_RandomEffect)
random_effect = _RandomEffect()

# seed: anchors... -> ui32[4]
_seed_p = Primitive("quantum_seed")
_seed_p.multiple_results = True


def make_random_key(*anchors: Any) -> Any:
    """Return a ``jax.random`` key that differs in each run of the program.

    Args:
        anchors: arrays that the key depends on, which have no other effect. Under ``jax.vmap`` over
            an anchor, each batch element gets a different key.
    """
    patch_while_checkpoint(random_effect)
    (words,) = _seed_p.bind(*anchors)
    key = jax.random.wrap_key_data(words[:2], impl="threefry2x32")
    return jax.random.fold_in(jax.random.fold_in(key, words[2]), words[3])


@_seed_p.def_effectful_abstract_eval
def _abstract_eval(*_: object) -> tuple[list[ShapedArray], Any]:
    """Return the type of the seed, uint32 ``[4]``, and the random effect.

    Also patches JAX: equations that draw stay in loops, so that each iteration draws, and functions
    of reductions and scatters raise an error if they call Python or a circuit.
    """
    keep_effects_in_loops()
    forbid_calls_in_operations()
    return [ShapedArray((4,), np.dtype(np.uint32))], {random_effect}


_seed_p.def_impl(lambda *anchors: jax.jit(lambda *args: _seed_p.bind(*args))(*anchors))


def _jvp(primals: PyTree, tangents: PyTree) -> Any:
    """Bind the seed again, with a zero tangent: random numbers have no derivative."""
    del tangents
    (words,) = _seed_p.bind(*primals)
    return [words], [make_symbolic_zero(words)]


ad.primitive_jvps[_seed_p] = _jvp
register_sequential_batching(_seed_p)


def _lower(ctx: mlir.LoweringRuleContext, *anchors: Any) -> Any:
    """Lower the seed primitive to ``quantum.seed``, the random words of this run.

    Outside of ``qjit`` it is lowered to a call of a separate Bellhop program. In ``qjit``, the
    operands are not used.

    Returns:
        the MLIR value ``ui32[4]``.
    """
    lowering = current_lowering()
    if lowering is None:
        return lower_as_program(ctx, _seed_p, anchors, {}, "the seed of a circuit")
    allow_bellhop_dialects(ctx)
    return quantum.seed([], circuit=lowering.next_random_circuit_index())


mlir.register_lowering(_seed_p, _lower, cacheable=False)
