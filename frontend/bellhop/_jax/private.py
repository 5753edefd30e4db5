"""The private names of JAX that are used as they are, for jax 0.10 and 0.11.

For example ``dce``, dead code elimination in a jaxpr, and ``transpose_jaxpr``, by the rules of each
primitive, with ``closed`` of ``lambda x, y: (sin(x), 2.0 * y)`` and ``linear`` of ``lambda t: 3 *
t``::

    dce(closed, used=[True, False], keep=[False, False])
        -> { lambda ; a:f64[]. let b:f64[] = sin a in (b,) }, [True, False]
    transpose_jaxpr(linear, [UndefinedPrimal(f64[])], cotangents=[2.0])
        -> [6.0]

Parts of JAX that are replaced stand in ``_jax/patches/``, the only other place with private JAX.

Each name, what it is for, and why no public name serves:

* ``effects``: registers the effects of callbacks, and tells which of them are ordered (have a
  token); JAX's sets of effects are private.
* ``callback.IOEffect``: the effect for which JAX refuses batching that would change the calls, as
  of a conditional with a mapped predicate; it has no public name.  Nor have the effects of JAX's
  other callbacks, by which ``calls_python`` knows them.
* ``backends_are_initialized`` and ``cpu_dispatch_is_asynchronous``: the CPU's dispatch, and whether
  it can still be configured; ``jax.config`` sets the option and cannot read it.
* ``make_cpu_client``: a second CPU client, for programs beyond the number that JAX's runs at once;
  ``jax.config`` can set neither that number nor a second client.
* ``weakref_cache_key_types``: lets JAX's caches hold a primitive's parameters weakly, here those
  that refer to users' functions; there is no public way.
* ``trace_state_clean``, ``AT_TOP_LEVEL`` and ``is_transformed_eagerly``: whether a call is under a
  transformation, and whether a program is being traced there.  Public JAX has only the deprecated
  ``unsafe_*`` queries, which do not see every transformation.
* ``lower_by``: lowers with rules for one program only, and ``buffer_callback_p``, a primitive that
  needs one.  ``mlir.register_lowering`` is for all programs.
* ``functions_held_for``: the Python objects that JAX keeps alive for a lowered program; its module
  does not name them.
* ``source_info_util``: the user's ``file:line`` of an equation, which JAX puts into locations.
* ``run_compiled``: runs a compiled program without JAX's C++ fast path, which refuses a program
  that calls itself in its first run; ``Compiled.__call__`` cannot avoid it.
* ``partitioning``: whether the module that is being lowered is partitioned over devices; a lowering
  rule sees it only in its context.
* ``pxla._dce_jaxpr``: a cache that keeps programs, and so users' functions, for ever; public JAX
  clears all of its caches or none.
* ``varying_axes`` and ``over_axes``: the axes of a mesh over which a value varies inside of
  ``jax.shard_map``; types have them in undocumented attributes.
* ``without_mesh``: traces without the user's mesh; ``jax.set_mesh`` sets one, but cannot unset it
  while a program is traced.
* ``array.ArrayImpl``: an array on a device that is not committed to it; ``jax.device_put`` commits
  where it is told the device, and NumPy forgets weak types.
* ``raw_platform``: the platform that JAX lowers for, ``cuda`` where the public name is ``gpu``.
* ``jvp_jaxpr``, ``partial_eval_jaxpr_nounits`` and ``convert_constvars_jaxpr``: transform the jaxpr
  that a primitive carries; the public ``jax.jvp`` and ``jax.linearize`` take functions, and
  evaluate what they trace.
* ``transpose_jaxpr`` and ``dce``: the transpose and the DCE of a jaxpr; the public
  ``jax.linear_transpose`` evaluates equations that are not linear, gates among them.
* ``traceback_util``: the frames that JAX leaves out of users' tracebacks; public JAX has only the
  option ``jax_traceback_filtering``.
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
    debugging,
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
    "AT_TOP_LEVEL",
    "InputOutputEffect",
    "Partitioning",
    "backends_are_initialized",
    "buffer_callback_p",
    "calls_python",
    "convert_constvars_jaxpr",
    "cpu_dispatch_is_asynchronous",
    "dce",
    "hide_frames",
    "hide_frames_of",
    "forget_lowering",
    "functions_held_for",
    "hold_weakly_in_caches",
    "ir_type",
    "is_ours",
    "is_transformed_eagerly",
    "jvp_jaxpr",
    "lower_by",
    "make_cpu_client",
    "mesh_is_set",
    "ordered_effects",
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
    "scan_counts",
]

backends_are_initialized = xla_bridge.backends_are_initialized
make_cpu_client = xla_bridge.make_cpu_client
trace_state_clean = core.trace_state_clean
# What is in the state of tracing, each followed by what its ``value`` is where no transformation
# is under way.  Where one has another value, ``trace_state_clean`` decides.
AT_TOP_LEVEL = (
    *(core.trace_state_strong_ref, core.eval_trace),
    *(core.axis_env_state, core.top_axis_env),
)


def is_transformed_eagerly() -> bool:
    """Tell whether a call is under transformations such as ``grad``, but under no ``jit``."""
    trace = core.trace_ctx.trace
    if isinstance(trace, core.EvalTrace):
        return False
    while isinstance(trace, ad.JVPTrace | ad.LinearizeTrace | BatchTrace):
        trace = trace.parent_trace
    return isinstance(trace, core.EvalTrace)


jvp_jaxpr = ad.jvp_jaxpr
partial_eval_jaxpr_nounits = partial_eval.partial_eval_jaxpr_nounits


def varying_axes(aval: Any) -> frozenset[Any]:
    """Return the axes of the mesh of ``jax.shard_map`` over which values of a type vary."""
    return aval.mat.varying if isinstance(aval, core.ShapedArray) else frozenset()


def over_axes(aval: Any, axes: frozenset[Any], mesh: Any) -> Any:
    """Return the type of a value that varies over axes of the mesh of ``jax.shard_map``."""
    spec = jax.sharding.PartitionSpec(*[None] * aval.ndim)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return aval.update(sharding=sharding, manual_axis_type=aval.mat.update(varying=axes))


def dce(
    closed: ClosedJaxpr, used: Sequence[bool], keep: Sequence[bool]
) -> tuple[ClosedJaxpr, list[bool]]:
    """Return the jaxpr of the used results, and which inputs it takes: needed ones, or kept."""
    jaxpr, needed = partial_eval.dce_jaxpr(closed.jaxpr, list(used), list(keep))
    return ClosedJaxpr(jaxpr, closed.consts), list(needed)


def transpose_jaxpr(
    closed: ClosedJaxpr, inputs: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of the inputs of a linear jaxpr that are ``UndefinedPrimal``."""
    return list(ad.backward_pass(closed.jaxpr, False, closed.consts, inputs, cotangents))


def cpu_dispatch_is_asynchronous() -> bool:
    """Tell whether the CPU backend dispatches asynchronously, or will once it is initialized."""
    return xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value


hide_frames_of = traceback_util.register_exclusion


# A newer JAX without it leaves tracebacks unfiltered; a test tells.
_filtering_mode: Any = getattr(traceback_util, "_filtering_mode", lambda: "off")


def hide_frames(error: BaseException) -> None:
    """Filter the traceback of an error as JAX does its own, by ``jax_traceback_filtering``."""
    mode = _filtering_mode()
    if error.__traceback__ is None or mode == "off":
        return
    if mode == "tracebackhide":
        traceback_util._add_tracebackhide_to_hidden_frames(error.__traceback__)
    else:
        error.__traceback__ = traceback_util.filter_traceback(error.__traceback__)


def hold_weakly_in_caches(parameter_type: type[Any]) -> None:
    """Let JAX's caches drop an entry when its parameter of this type is garbage-collected."""
    util.weakref_cache_key_types.add(parameter_type)


class InputOutputEffect(callback.IOEffect):
    """The effect of unordered calls that must be neither dropped nor repeated.

    It compares equal to JAX's own: JAX looks for that one before batching would run both branches
    of a conditional, or go on in loops that have ended.  It is a type of its own to be allowed
    where JAX's is not, such as in ``jax.checkpoint``.
    """

    def __str__(self) -> str:
        return "InputOutput"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, callback.IOEffect)

    def __hash__(self) -> int:
        return hash(callback._IOEffect)


class Partitioning(enum.Enum):
    """How a part of a module is partitioned over devices."""

    NONE = enum.auto()
    AUTOMATIC = enum.auto()
    MANUAL = enum.auto()
    PARTLY_MANUAL = enum.auto()


def partitioning(context: mlir.ModuleContext) -> tuple[Partitioning, int]:
    """Return how the module that is being lowered is partitioned, and over how many devices."""
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
    """Evict a jaxpr from the cache of ``pxla._dce_jaxpr``.

    Since jax 0.11 the entry holds the jaxpr itself, and so its weak key never dies.
    """
    evict = getattr(getattr(pxla, "_dce_jaxpr", None), "evict_weakref", None)
    if evict is not None:
        evict(jaxpr)


def mesh_is_set() -> bool:
    """Tell whether a mesh is set (``jax.set_mesh``)."""
    abstract, concrete = sharding_impls.get_abstract_mesh(), sharding_impls.get_concrete_mesh()
    return not (abstract.empty and concrete.empty)


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Trace and lower as if no mesh were set."""
    if not mesh_is_set():
        # To JAX's caches, an empty mesh differs from none.
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
_EFFECTS_OF_JAX = (
    *(debugging.DebugEffect, debugging.OrderedDebugEffect),
    *(callback.IOEffect, callback.OrderedIOEffect),
)


def is_ours(effect: Any) -> bool:
    """Tell whether an effect is of a type that we registered."""
    return isinstance(effect, _our_effects)


def calls_python(effect: Any) -> bool:
    """Tell whether an effect is that of a call of Python's, one of ours or of JAX's own."""
    return is_ours(effect) or isinstance(effect, _EFFECTS_OF_JAX)


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
    """Likewise, for an effect that keeps program order."""
    register_effect(effect_type)
    for allowed in (effects.ordered_effects, effects.shardable_ordered_effects):
        allowed.add_type(effect_type)


def ordered_effects(jaxpr: ClosedJaxpr) -> list[Any]:
    """Return the ordered effects of a jaxpr, in the order of their tokens in the module."""
    return effects.ordered_effects.filter_in(jaxpr.effects)


def run_compiled(compiled: jax.stages.Compiled, /, *args: Any, **kwargs: Any) -> Any:
    """Run a compiled program, which may call itself recursively."""
    results, *_ = compiled.call(compiled._params, *args, **kwargs)
    return results


def refuses_traced_size(error: BaseException) -> bool:
    """Tell whether an exception is JAX's for a traced shape or slice; it has no own type."""
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
    """Lower a traced function for the CPU, with lowering rules that override JAX's."""
    parameters = mlir.LoweringParameters(override_lowering_rules=rules)
    return traced.lower(lowering_platforms=("cpu",), _private_parameters=parameters)


def functions_held_for(lowered: jax.stages.Lowered) -> list[Any]:
    """Return the Python objects that a lowered program refers to."""
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
