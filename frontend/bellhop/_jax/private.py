"""The private names of JAX that are used as they are, for jax 0.10 to 0.12, but those of jaxprs.

``jaxprs`` has those, ``patches/`` the parts of JAX that are replaced, ``dispatch`` fast calls, and
``compiled_runs`` runs whose results are looked at.  No other file uses private JAX.

Each name, what it is for, and why no public name serves:

* ``effects``: JAX's sets of effect types.  We register our effects in them, and ask which effects
  are ordered (have a token).  No public function does either.
* ``callback.IOEffect``: the effect that keeps JAX from batching a conditional with a mapped
  predicate, which would make calls of both branches.  ``calls_python`` looks for it and for the
  effects of JAX's other callbacks.  None of them has a public name.
* ``INVALID_ARGUMENT``: the exception that JAX raises for an argument that it does not take, so that
  we can name the argument.  Its type has no public name.
* ``backends_are_initialized`` and ``cpu_dispatch_is_asynchronous``: whether CPU programs run
  asynchronously, and whether that can still be changed.  ``jax.config`` can set the option, but not
  read it.
* ``make_cpu_client``: makes a second CPU client.  JAX's own runs a fixed number of programs at a
  time, and ``jax.config`` can neither raise that number nor make a client.
* ``weakref_cache_key_types``: lets JAX's caches hold a primitive's parameter weakly.  Otherwise
  they would keep users' functions alive.  There is no public way.
* ``trace_state_clean``, ``AT_TOP_LEVEL``, ``VALUE_OF`` and ``is_transformed_eagerly``: whether a
  call is under a transformation, and whether that transformation traces a program.  Public JAX has
  only the deprecated ``unsafe_*`` queries, which miss some transformations.
* ``trace_context``: what of JAX's state, its default device among it, a program depends on.  JAX
  keeps programs apart by it, and nothing public tells it.
* ``lower_with_rules``: lowers one program with lowering rules of its own; ``buffer_callback_p``
needs one.
  The public ``mlir.register_lowering`` sets the rule of every program.
* ``CALLBACKS_OF_JAX``: the primitives of JAX's own callbacks, none of which is public.
* ``keepalive_functions``: the Python objects that JAX keeps alive for a lowered program, which its
  module does not name.
* ``source_info_util``: the user's ``file:line`` of an equation, which JAX puts into locations.
* ``partitioning``: whether the module that is being lowered is partitioned over devices, which a
  lowering rule can read only from its context.
* ``callback_sharding``: how JAX annotates its own callbacks in a module that is partitioned.  The
  public ``mlir.emit_python_callback`` takes the annotation, and nothing public makes it.
* ``varying_axes`` and ``make_varying``: the mesh axes over which a value varies inside
  ``jax.shard_map``, which are undocumented attributes of types.
* ``without_varying_axes``: traces within ``jax.shard_map`` as with ``check_vma=False``, which is
  given for the whole function only.
* ``without_mesh``: traces without the user's mesh.  ``jax.set_mesh`` sets a mesh, but cannot unset
  one while a program is traced.
* ``array.ArrayImpl``: makes an array that is not committed to its device.  ``jax.device_put``
  commits an array when it is given a device, and a copy by NumPy loses the weak type.
* ``raw_platform``: the platform that JAX lowers for: ``cuda``, where the public name is ``gpu``.
* ``host_by_default`` and ``user_default_device``: the device that JAX takes by default while a
  program of ours is traced or runs.  ``jax.default_device`` sets one, but does not say whether the
  user did, and C++ sets state by methods of JAX's.
* ``traceback_util``: hides our frames from users' tracebacks.  Public JAX has only the option
  ``jax_traceback_filtering``.
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
    config,
    core,
    debugging,
    dtypes,
    effects,
    sharding_impls,
    source_info_util,
    traceback_util,
    util,
    xla_bridge,
)
from jax._src.interpreters import ad  # noqa: TID251
from jax._src.interpreters.batching import BatchTrace  # noqa: TID251
from jax.extend.core import ClosedJaxpr, Primitive
from jax.interpreters import mlir

# Raised for an argument that JAX does not take: no TypeError in JAX 0.10.0.
INVALID_ARGUMENT: type[Exception] = getattr(dtypes, "InvalidInputException", TypeError)
backends_are_initialized = xla_bridge.backends_are_initialized
make_cpu_client = xla_bridge.make_cpu_client
trace_context = config.trace_context
trace_state_clean = core.trace_state_clean
# Two objects of JAX's tracing state, each followed by its ``value`` outside of transformations.
# Where both have these values, no transformation is under way.  Where one has not, there may still
# be none, which ``trace_state_clean`` tells.
AT_TOP_LEVEL = (
    *(core.trace_state_strong_ref, core.eval_trace),
    *(core.axis_env_state, core.top_axis_env),
)


# A function that returns their value, and that of JAX's options: a call asks for five of them, and
# asking an object for its attribute takes half as long again.
VALUE_OF = type(core.axis_env_state).value.fget


# JAX's default device, while a program of ours is traced or runs where the user's is on another
# platform: an object of its own, which JAX takes for the name of the platform that it equals.
_HOST = "".join(("c", "pu"))
# What the user's is meanwhile.  JAX keeps what it traces apart by it.
_instead_of = jax.make_user_context(None)
DEFAULT_DEVICE = jax.default_device


def user_default_device() -> Any:
    """Return what ``jax.default_device`` is, as the user set it."""
    default = DEFAULT_DEVICE.value
    return _instead_of.value if default is _HOST else default


def host_by_default(default: Any) -> tuple[Any, ...]:
    """Return objects of JAX's state, each followed by its value with the host as default device.

    Args:
        default: what ``jax.default_device`` is otherwise.
    """
    return _instead_of._obj, default, DEFAULT_DEVICE, _HOST


@contextlib.contextmanager
def set_jax_state(values: Sequence[Any]) -> Iterator[None]:
    """Set objects, each followed by its value, in this thread and inside of the ``with`` block."""
    pairs = zip(values[::2], values[1::2], strict=True)
    former = [(state, state.swap_local(value)) for state, value in pairs]
    try:
        yield
    finally:
        for state, value in reversed(former):
            state.set_local(value)


def is_transformed_eagerly() -> bool:
    """Tell whether ``grad``, ``vmap`` or the like transforms a call that no ``jit`` traces."""
    trace = core.trace_ctx.trace
    if isinstance(trace, core.EvalTrace):
        return False
    while isinstance(trace, ad.JVPTrace | ad.LinearizeTrace | BatchTrace):
        trace = trace.parent_trace
    return isinstance(trace, core.EvalTrace)


def varying_axes(aval: Any) -> frozenset[Any]:
    """Return the axes of the mesh of ``jax.shard_map`` over which values of a type vary."""
    return aval.mat.varying if isinstance(aval, core.ShapedArray) else frozenset()


def make_varying(aval: Any, axes: frozenset[Any], mesh: Any) -> Any:
    """Return the type of a value that varies over axes of the mesh of ``jax.shard_map``."""
    spec = jax.sharding.PartitionSpec(*[None] * aval.ndim)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return aval.update(sharding=sharding, manual_axis_type=aval.mat.update(varying=axes))


def cpu_dispatch_is_asynchronous() -> bool:
    """Tell whether the CPU backend dispatches asynchronously, or will once it is initialized."""
    return xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value


hide_frames_of = traceback_util.register_exclusion


# Without this name in a newer JAX, tracebacks are not filtered, and a test fails.
_filtering_mode: Any = getattr(traceback_util, "_filtering_mode", lambda: "off")


def hide_frames(error: BaseException) -> None:
    """Filter the traceback of an error as JAX does its own, by ``jax_traceback_filtering``."""
    mode = _filtering_mode()
    if error.__traceback__ is None or mode == "off":
        return
    if mode == "tracebackhide":
        traceback_util._add_tracebackhide_to_hidden_frames(error.__traceback__)
    else:
        # Not as an attribute: the class may refuse those, as frozen dataclasses do.
        BaseException.with_traceback(error, traceback_util.filter_traceback(error.__traceback__))


def hold_weakly_in_caches(parameter_type: type[Any]) -> None:
    """Let JAX's caches drop an entry when its parameter of this type is garbage-collected."""
    util.weakref_cache_key_types.add(parameter_type)


class InputOutputEffect(callback.IOEffect):
    """The effect of unordered calls that must be neither dropped nor repeated.

    It equals JAX's ``IOEffect``, since JAX looks for that one before it batches: a conditional with
    a mapped predicate would run both branches, and a ``while`` loop would go on for elements that
    have ended.  It is another type than ``IOEffect``, since ``jax.checkpoint`` refuses that one.
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


def callback_sharding(ctx: mlir.LoweringRuleContext) -> Any:
    """Return the annotation of a callback: once with whole arrays, or on each device its part."""
    return callback._callback_op_sharding(ctx.module_context.axis_context, None, ctx.avals_out)


def mesh_is_set() -> bool:
    """Tell whether a mesh is set (``jax.set_mesh``)."""
    abstract, concrete = sharding_impls.get_abstract_mesh(), sharding_impls.get_concrete_mesh()
    return not (abstract.empty and concrete.empty)


def without_varying_axes() -> contextlib.AbstractContextManager[None]:
    """Trace within ``jax.shard_map`` values whose types do not say how they differ."""
    return config._check_vma(False)


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Trace and lower as if no mesh were set."""
    if not mesh_is_set():
        # JAX's caches tell an empty mesh from no mesh, so setting one here would miss them.
        yield
        return
    with (
        jax.sharding.use_abstract_mesh(sharding_impls.empty_abstract_mesh),
        sharding_impls._internal_use_concrete_mesh(sharding_impls.empty_concrete_mesh),
    ):
        yield


def as_uncommitted(value: jax.Array) -> jax.Array:
    """Return an array on one device that is not committed to it."""
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = as_uncommitted(jax.random.key_data(value))
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


def is_bellhop_effect(effect: Any) -> bool:
    """Tell whether an effect is of a type that we registered."""
    return isinstance(effect, _our_effects)


def is_callback_effect(effect: Any) -> bool:
    """Tell whether an effect is that of a callback: one of ours, or one of JAX's own."""
    return is_bellhop_effect(effect) or isinstance(effect, _EFFECTS_OF_JAX)


def register_effect(effect_type: type[Any]) -> None:
    """Let JAX lower and transform programs that have an effect of this type."""
    global _our_effects
    _our_effects += (effect_type,)
    for allowed in (
        effects.lowerable_effects,
        effects.control_flow_allowed_effects,
        effects.custom_derivatives_allowed_effects,
        effects.partial_eval_kept_effects,
        effects.remat_allowed_effects,
    ):
        allowed.add_type(effect_type)


def register_ordered_effect(effect_type: type[Any]) -> None:
    """Do what ``register_effect`` does for an effect that keeps program order, by a token."""
    register_effect(effect_type)
    for allowed in (effects.ordered_effects, effects.shardable_ordered_effects):
        allowed.add_type(effect_type)


def ordered_effects(jaxpr: ClosedJaxpr) -> list[Any]:
    """Return the ordered effects of a jaxpr, in the order of their tokens in the module."""
    return effects.ordered_effects.filter_in(jaxpr.effects)


def is_traced_size_error(error: BaseException) -> bool:
    """Tell whether JAX raised an exception because a shape or a slice is traced.

    JAX raises a ``TypeError`` or ``IndexError`` then, as for other mistakes.  So this looks at the
    frame that raised it, and for tracers in the shape or slice there.
    """
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

CALLBACKS_OF_JAX = frozenset(
    primitive
    for module in (buffer_callback, callback, debugging)
    for name, primitive in vars(module).items()
    if isinstance(primitive, Primitive)
)


def lower_with_rules(
    traced: Any, rules: tuple[tuple[Primitive, Callable[..., Any]], ...]
) -> jax.stages.Lowered:
    """Lower a traced function for the CPU, with lowering rules that override JAX's."""
    parameters = mlir.LoweringParameters(override_lowering_rules=rules)
    return traced.lower(lowering_platforms=("cpu",), _private_parameters=parameters)


def keepalive_functions(lowered: jax.stages.Lowered) -> list[Any]:
    """Return the Python objects that JAX keeps alive for a lowered program."""
    held = lowered._lowering.compile_args
    return [*(held["host_callbacks"] or ()), *(held["keepalive"] or ())]


def equation_site() -> str | None:
    """Return the ``file:line`` in the user's code of the equation that is being made, or lowered.

    JAX looks no further than to where the innermost trace began, and may find none.
    """
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    return None if frame is None else f"{frame.file_name}:{frame.start_line}"


# Public, but its arguments changed: jax 0.10.0 takes no context.
_IR_TYPE_TAKES_CONTEXT = len(inspect.signature(mlir.aval_to_ir_type).parameters) == 2


def ir_type(ctx: mlir.LoweringRuleContext, aval: Any) -> Any:
    """Return the MLIR type of an abstract value."""
    if _IR_TYPE_TAKES_CONTEXT:
        return mlir.aval_to_ir_type(ctx.module_context, aval)
    return mlir.aval_to_ir_type(aval)
