"""The private names of JAX that are used as they are, for jax 0.10 and 0.11.

What is replaced stands in ``_jax/patches/``, the only other place that imports private JAX.

Each name, what it is for, and why no public name serves:

* ``effects``: registers the effects of callbacks, and tells which of a program's have tokens;
  JAX's sets of effects have no public door.
* ``callback.IOEffect``: the effect by which JAX itself refuses what it cannot batch, such as
  a conditional on a mapped predicate; there is no public name for it.
* ``backends_are_initialized`` and ``cpu_dispatch_is_asynchronous``: how the CPU dispatches,
  and whether it is too late to choose; ``jax.config`` can set the option but not tell it.
* ``make_cpu_client``: another client beside JAX's, for programs that JAX's has no room for;
  ``jax.config`` can set neither how many it runs at a time nor a second one.
* ``weakref_cache_key_types``: keeps JAX's caches from holding on to what a primitive's
  parameters refer to, here users' functions; there is no public way.
* ``trace_state_clean`` and ``is_transformed_eagerly``: whether a call stands under a
  transformation, and whether a program is being made there.  Public JAX has only the deprecated
  ``unsafe_*`` queries, which do not see every transformation.
* ``lower_by``: lowers with rules that hold for one program alone; ``buffer_callback_p``: a
  primitive that needs one.  Public rules hold for all programs.
* ``functions_held_for``: what JAX would keep alive for a program, of which its module says nothing.
* ``source_info_util``: the user's line that an equation is from, which JAX puts into locations.
* ``run_compiled``: runs a compiled program without JAX's cache of fast calls, which refuses
  a program that calls itself in its first run; ``Compiled.__call__`` has no way around it.
* ``partitioning``: how the module that is being lowered is spread over devices; a lowering rule
  sees it in its context only.
* ``pxla._dce_jaxpr``: a cache of JAX's that keeps programs, and so users' functions, for ever;
  public JAX clears all of its caches or none.
* ``varying_axes`` and ``over_axes``: over which axes of a mesh a value differs inside
  ``jax.shard_map``; JAX's types say it in attributes that are not documented.
* ``without_mesh``: what the user's mesh must not reach; ``jax.set_mesh`` sets one, but none
  cannot be set where a program is being traced.
* ``array.ArrayImpl``: an array on a device that is not committed to it; ``jax.device_put`` commits
  where it is told the device, and anything through NumPy forgets weak types.
* ``raw_platform``: what JAX lowers for, ``cuda`` where the public name is ``gpu``.
* ``jvp_jaxpr``, ``partial_eval_jaxpr_nounits`` and ``convert_constvars_jaxpr``: transform a
  jaxpr that a primitive carries; the public ``jax.jvp`` and ``jax.linearize`` take
  functions, and run what they trace.
* ``transpose_jaxpr`` and ``without_unused``: the transposed linear part of a loop's body, and a
  jaxpr without what its used results do not need; the public ``jax.linear_transpose`` evaluates
  parts that are not linear, gates among them.
* ``traceback_util``: which frames JAX leaves out of the tracebacks that users see, and how
  ``jax_traceback_filtering`` says; public JAX has the option alone.
"""

import contextlib
import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax._src import (  # noqa: TID251
    array,
    buffer_callback,
    callback,
    core,
    effects,
    sharding_impls,
    source_info_util,
    traceback_util,
    util,
    xla_bridge,
)
from jax._src.interpreters import ad, partial_eval, pxla  # noqa: TID251
from jax._src.interpreters.batching import BatchTrace  # noqa: TID251
from jax.extend.core import ClosedJaxpr, Jaxpr, Primitive
from jax.interpreters import mlir

__all__ = [
    "InputOutputEffect",
    "Partitioning",
    "backends_are_initialized",
    "buffer_callback_p",
    "convert_constvars_jaxpr",
    "cpu_dispatch_is_asynchronous",
    "hide_frames",
    "hide_frames_of",
    "forget_lowering",
    "functions_held_for",
    "hold_weakly_in_caches",
    "ir_type",
    "is_transformed_eagerly",
    "jvp_jaxpr",
    "lower_by",
    "make_cpu_client",
    "mesh_is_set",
    "ordered_effects",
    "our_effects",
    "over_axes",
    "partial_eval_jaxpr_nounits",
    "partitioning",
    "raw_platform",
    "refuses_traced_size",
    "register_effect",
    "register_ordered_effect",
    "run_compiled",
    "site_of_equation",
    "trace_state_clean",
    "transpose_jaxpr",
    "uncommitted",
    "varying_axes",
    "without_mesh",
    "without_unused",
    "scan_counts",
]

backends_are_initialized = xla_bridge.backends_are_initialized
make_cpu_client = xla_bridge.make_cpu_client
trace_state_clean = core.trace_state_clean


def is_transformed_eagerly() -> bool:
    """Tell whether a call stands under transformations, of which none makes a program."""
    trace = core.trace_ctx.trace
    if isinstance(trace, core.EvalTrace):
        return False
    while isinstance(trace, ad.JVPTrace | ad.LinearizeTrace | BatchTrace):
        trace = trace.parent_trace
    return isinstance(trace, core.EvalTrace)


jvp_jaxpr = ad.jvp_jaxpr
partial_eval_jaxpr_nounits = partial_eval.partial_eval_jaxpr_nounits


def varying_axes(aval: Any) -> frozenset[Any]:
    """Return the axes of the mesh of ``jax.shard_map`` over which a value of a type differs."""
    return aval.mat.varying if isinstance(aval, core.ShapedArray) else frozenset()


def over_axes(aval: Any, axes: frozenset[Any], mesh: Any) -> Any:
    """Return the type of a value that differs over axes of the mesh of ``jax.shard_map``."""
    spec = jax.sharding.PartitionSpec(*[None] * aval.ndim)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return aval.update(sharding=sharding, manual_axis_type=aval.mat.update(varying=axes))


def without_unused(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool] | bool = False
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return a jaxpr with the used results alone, and which of its inputs it has still.

    Those are the inputs that the results need, and the ones to keep.
    """
    keep = keep if isinstance(keep, bool) else list(keep)
    jaxpr, needed = partial_eval.dce_jaxpr(closed.jaxpr, list(used), keep)
    return ClosedJaxpr(jaxpr, closed.consts), list(needed)


def transpose_jaxpr(
    closed: ClosedJaxpr, inputs: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of the undefined ones among the inputs of a linear jaxpr."""
    return list(ad.backward_pass(closed.jaxpr, False, closed.consts, inputs, cotangents))


def cpu_dispatch_is_asynchronous() -> bool:
    """Tell how the CPU backend will dispatch, or does."""
    return xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value


hide_frames_of = traceback_util.register_exclusion


# Leaves tracebacks as they are where a newer JAX has it no more; a test tells.
_filtering_mode: Any = getattr(traceback_util, "_filtering_mode", lambda: "off")


def hide_frames(error: BaseException) -> None:
    """Leave out of an error's traceback what JAX leaves out of its own, as its option says."""
    mode = _filtering_mode()
    if error.__traceback__ is None or mode == "off":
        return
    if mode == "tracebackhide":
        traceback_util._add_tracebackhide_to_hidden_frames(error.__traceback__)
    else:
        error.__traceback__ = traceback_util.filter_traceback(error.__traceback__)


def hold_weakly_in_caches(parameter_type: type[Any]) -> None:
    """Let JAX's caches forget entries when a parameter of this type is gone."""
    util.weakref_cache_key_types.add(parameter_type)


class InputOutputEffect(callback.IOEffect):
    """Keeps calls that are neither dropped nor repeated, in no order.

    It equals JAX's own, which JAX looks for where batching would run both branches of a
    conditional or go on in loops that have ended; a type of its own lets it into places that
    JAX's is kept from, such as ``jax.checkpoint``.
    """

    def __str__(self) -> str:
        return "InputOutput"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, callback.IOEffect)

    def __hash__(self) -> int:
        return hash(callback._IOEffect)


class Partitioning(enum.Enum):
    """How a part of a module is spread over devices."""

    NONE = enum.auto()
    AUTOMATIC = enum.auto()
    MANUAL = enum.auto()
    PARTLY_MANUAL = enum.auto()


def partitioning(context: mlir.ModuleContext) -> tuple[Partitioning, int]:
    """Return how what is being lowered is spread, and over how many devices."""
    axes = context.axis_context
    if isinstance(axes, sharding_impls.SPMDAxisContext):
        is_manual = axes.manual_axes == frozenset(axes.mesh.axis_names)
        return Partitioning.MANUAL if is_manual else Partitioning.PARTLY_MANUAL, axes.mesh.size
    if isinstance(axes, sharding_impls.ShardingContext) and axes.num_devices > 1:
        return Partitioning.AUTOMATIC, axes.num_devices
    return Partitioning.NONE, 1


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Return how many constants and how many carried values a ``scan`` has, by its parameters."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    # Since jax 0.11.
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


def forget_lowering(jaxpr: Any) -> None:
    """Let JAX forget what it kept when a jaxpr was lowered with all of its inputs.

    Since jax 0.11 that is the jaxpr itself, in a cache that is to drop it when it dies.
    """
    evict = getattr(getattr(pxla, "_dce_jaxpr", None), "evict_weakref", None)
    if evict is not None:
        evict(jaxpr)


def mesh_is_set() -> bool:
    """Tell whether the user's program set a mesh."""
    abstract, concrete = sharding_impls.get_abstract_mesh(), sharding_impls.get_concrete_mesh()
    return not (abstract.empty and concrete.empty)


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Trace and lower as where the user's program set no mesh."""
    if not mesh_is_set():
        # To JAX's caches, an empty mesh that was set is not the one that never was.
        yield
        return
    with (
        jax.sharding.use_abstract_mesh(sharding_impls.empty_abstract_mesh),
        sharding_impls._internal_use_concrete_mesh(sharding_impls.empty_concrete_mesh),
    ):
        yield


def uncommitted(value: jax.Array) -> jax.Array:
    """Return an array on one device that is not committed to it."""
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = uncommitted(jax.random.key_data(value))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
    return array.ArrayImpl(jax.typeof(value), value.sharding, [value], committed=False)


def raw_platform(device: jax.Device) -> str:
    """Return the platform that programs for a device are lowered for."""
    return getattr(device.client, "_raw_platform", device.client.platform)


_our_effects: tuple[type[Any], ...] = ()


def our_effects() -> tuple[type[Any], ...]:
    """Return the types of effects that were registered."""
    return _our_effects


def register_effect(effect_type: type[Any], *, in_checkpoint: bool = True) -> None:
    """Let programs with an effect be lowered and transformed."""
    global _our_effects
    _our_effects += (effect_type,)
    for allowed in (
        effects.lowerable_effects,
        effects.control_flow_allowed_effects,
        effects.custom_derivatives_allowed_effects,
        effects.partial_eval_kept_effects,
    ):
        allowed.add_type(effect_type)
    if in_checkpoint:
        effects.remat_allowed_effects.add_type(effect_type)


def register_ordered_effect(effect_type: type[Any]) -> None:
    """Let programs with an effect be lowered and transformed, in program order."""
    register_effect(effect_type)
    for allowed in (effects.ordered_effects, effects.shardable_ordered_effects):
        allowed.add_type(effect_type)


def ordered_effects(jaxpr: ClosedJaxpr) -> list[Any]:
    """Return the effects that have tokens, in the order of these in the lowered module."""
    return effects.ordered_effects.filter_in(jaxpr.effects)


def run_compiled(compiled: jax.stages.Compiled, /, *args: Any, **kwargs: Any) -> Any:
    """Run a compiled program; it may run itself while it runs."""
    results, *_ = compiled.call(compiled._params, *args, **kwargs)
    return results


def refuses_traced_size(error: BaseException) -> bool:
    """Tell whether an exception is JAX's of a shape or slice that is traced; it has no type."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    code, values = traceback.tb_frame.f_code, traceback.tb_frame.f_locals
    sizes: list[Any] = []
    if code is core.canonicalize_shape.__code__:
        sizes = jax.tree.leaves(values.get("shape"))
    elif traceback.tb_frame.f_globals.get("__name__") == "jax._src.numpy.indexing":
        index = getattr(values.get("idx"), "index", None)
        sizes = [index.start, index.stop, index.step] if isinstance(index, slice) else []
    return any(isinstance(size, core.Tracer) for size in sizes)


buffer_callback_p = buffer_callback.buffer_callback_p


def lower_by(
    traced: Any, rules: tuple[tuple[Primitive, Callable[..., Any]], ...]
) -> jax.stages.Lowered:
    """Lower a traced function for the CPU by rules that take precedence over JAX's."""
    parameters = mlir.LoweringParameters(override_lowering_rules=rules)
    return traced.lower(lowering_platforms=("cpu",), _private_parameters=parameters)


def functions_held_for(lowered: jax.stages.Lowered) -> list[Any]:
    """Return the objects of this process that a lowered program refers to."""
    held = lowered._lowering.compile_args
    return [*(held["host_callbacks"] or ()), *(held["keepalive"] or ())]


def site_of_equation() -> str:
    """Return ``file:line`` of the user's code that the equation being lowered is from."""
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    return "<unknown>" if frame is None else f"{frame.file_name}:{frame.start_line}"


def convert_constvars_jaxpr(closed: ClosedJaxpr) -> Jaxpr:
    """Return the jaxpr of a closed one with its constants as first inputs."""
    return partial_eval.convert_constvars_jaxpr(closed.jaxpr)


# Public, but its arguments changed: jax 0.10.0 took the abstract value alone.
_IR_TYPE_TAKES_CONTEXT = len(inspect.signature(mlir.aval_to_ir_type).parameters) == 2


def ir_type(ctx: mlir.LoweringRuleContext, aval: Any) -> Any:
    """Return the MLIR type of an abstract value."""
    if _IR_TYPE_TAKES_CONTEXT:
        return mlir.aval_to_ir_type(ctx.module_context, aval)
    return mlir.aval_to_ir_type(aval)
