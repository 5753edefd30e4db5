"""Private names of JAX that are used unchanged, for jax 0.10 to 0.12.

Private names for jaxprs are in ``jaxprs``, for calls of programs in ``fast_dispatch`` and
``slow_dispatch``, and replaced functions in ``patches``.  No other file uses private JAX.

Each name, its purpose, and the reason why no public name serves:

* ``effects``: JAX's sets of effect types.  Bellhop registers its effects in them, and
  queries which effects are ordered (have a token).  No public function does either.
* ``callback.IOEffect``: the effect that keeps JAX from batching a conditional with a mapped
  predicate, which would execute callbacks of both branches.  ``calls_python`` looks for it and for
  the effects of all JAX callbacks.  None of them has a public name.
* ``INVALID_ARGUMENT``: the exception that JAX raises for unsupported arguments, caught to name the
  argument.  Its type has no public name.
* ``backends_are_initialized`` and ``cpu_dispatch_is_asynchronous``: whether CPU programs run
  asynchronously, and whether that can still be changed.  ``jax.config`` can set the option, but not
  read it.
* ``make_cpu_client``: makes a second CPU client.  JAX's client runs a fixed number of programs
  concurrently, and ``jax.config`` can neither raise that number nor make a client.
* ``weakref_cache_key_types``: lets JAX's caches hold a primitive's parameter weakly.  Otherwise
  they would keep users' functions alive.  No public function does this.
* ``trace_state_clean``, ``AT_TOP_LEVEL``, ``VALUE_OF`` and ``is_transformed_eagerly``: whether a
  call is under a transformation, and whether that transformation traces a program.  Public JAX has
  only the deprecated ``unsafe_*`` queries, which miss some transformations.
* ``trace_context``: the part of the JAX configuration that a program depends on, such as the
  default device; a part of cache keys in JAX.
* ``lower_with_rules``: lowers one program with custom lowering rules, for ``buffer_callback_p``.
  The public ``mlir.register_lowering`` sets the rule for all programs.
* ``JAX_CALLBACK_PRIMITIVES``: the primitives of ``jax.pure_callback`` etc. They are not public.
* ``keepalive_functions``: the Python objects that JAX keeps alive for a lowered program.
* ``source_info_util``: the user's ``file:line`` of an equation, which JAX puts into locations; and
  the exception by which JAX shows the line of a transformed operation, and repeats the message.
* ``get_partitioning``: whether the module that is being lowered is partitioned over devices.
* ``callback_sharding``: the sharding annotation of JAX callbacks in a partitioned module.  The
  public ``mlir.emit_python_callback`` accepts it, but no public function makes it.
* ``varying_axes`` and ``make_varying``: the mesh axes over which a value varies inside
  ``jax.shard_map``, which are undocumented attributes of types.
* ``without_varying_axes``: traces within ``jax.shard_map`` as with ``check_vma=False``, an option
  for the whole function only.
* ``without_mesh``: traces without the user's mesh.  ``jax.set_mesh`` sets a mesh, but cannot unset
  one while a program is traced.
* ``array.ArrayImpl``: makes an array that is not committed to its device.  ``jax.device_put``
  commits an array when it is given a device, and a copy by NumPy loses the weak type.
* ``raw_platform``: the platform that JAX lowers for: ``cuda``, where the public name is ``gpu``.
* ``host_device_state`` and ``user_default_device``: JAX's default device while Bellhop traces or
  runs a program, and the user's default.  The public ``jax.default_device`` does not distinguish
  them.
* ``traceback_util``: hides Bellhop's frames in users' tracebacks.  Public JAX has only the option
  ``jax_traceback_filtering``.
"""

import contextlib
import enum
import functools
import inspect
import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType, TracebackType
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

# Raised for unsupported arguments; it is not a TypeError in JAX 0.10.0.
INVALID_ARGUMENT: type[Exception] = getattr(dtypes, "InvalidInputException", TypeError)
backends_are_initialized = xla_bridge.backends_are_initialized
make_cpu_client = xla_bridge.make_cpu_client
trace_context = config.trace_context
trace_state_clean = core.trace_state_clean
# Two objects of tracing state, each followed by its ``value`` outside of transformations. If both
# have these values, no transformation is active; otherwise ``trace_state_clean`` decides.
AT_TOP_LEVEL = (
    *(core.trace_state_strong_ref, core.eval_trace),
    *(core.axis_env_state, core.top_axis_env),
)


# Getter of the ``value`` of state and option objects. Each call reads five of them, and this getter
# is faster than attribute access.
VALUE_OF = type(core.axis_env_state).value.fget


# Default device that Bellhop sets while it traces or runs a program. JAX accepts this string as a
# platform name, and its identity distinguishes it from the user's setting.
_HOST = "".join(("c", "pu"))
# The user's default device meanwhile. JAX's cache keys include it.
_instead_of = jax.make_user_context(None)
DEFAULT_DEVICE = jax.default_device


def user_default_device() -> Any:
    """Return the user's ``jax.default_device``, also while Bellhop has replaced it.

    Bellhop makes the host the default device while it traces or runs a program. The result is a
    device, a platform's name, or None if the user set none.
    """
    default = DEFAULT_DEVICE.value
    return _instead_of.value if default is _HOST else default


def host_device_state(default: Any) -> tuple[Any, ...]:
    """List the JAX settings that make the host the default device, for `set_jax_state`.

    Bellhop traces and runs programs under these settings.

    Args:
        default: the user's ``jax.default_device``, which stays part of cache keys in JAX.

    Returns:
        a tuple: state objects in JAX, each followed by its new value.
    """
    return _instead_of._obj, default, DEFAULT_DEVICE, _HOST


@contextlib.contextmanager
def set_jax_state(values: Sequence[Any]) -> Iterator[None]:
    """Set internal settings of JAX for this thread, inside of a ``with`` block.

    Args:
        values: JAX's state objects or options, each followed by its value in the block.
    """
    pairs = zip(values[::2], values[1::2], strict=True)
    former = [(state, state.swap_local(value)) for state, value in pairs]
    try:
        yield
    finally:
        for state, value in reversed(former):
            state.set_local(value)


def is_transformed_eagerly() -> bool:
    """Return whether the caller is under ``grad``, ``vmap`` etc. but not in a ``jit``.

    False at top level, without a transformation, and while a program is traced.
    """
    trace = core.trace_ctx.trace
    if isinstance(trace, core.EvalTrace):
        return False
    while isinstance(trace, ad.JVPTrace | ad.LinearizeTrace | BatchTrace):
        trace = trace.parent_trace
    return isinstance(trace, core.EvalTrace)


def varying_axes(aval: Any) -> frozenset[Any]:
    """Return the mesh axes of ``jax.shard_map`` over which values of a type vary.

    Args:
        aval: an abstract value; other types than arrays vary over no axis.

    Returns:
        names of the axes; empty outside of ``jax.shard_map``.
    """
    return aval.mat.varying if isinstance(aval, core.ShapedArray) else frozenset()


def make_varying(aval: Any, axes: frozenset[Any], mesh: Any) -> Any:
    """Return an array type that varies over the given mesh axes of ``jax.shard_map``.

    Args:
        aval: the array's abstract value.
        axes: names of the axes over which the new type varies; the axes of `aval` are dropped.
        mesh: the mesh of ``jax.shard_map``. In the sharding of the type, no array axis is
            partitioned over it.
    """
    spec = jax.sharding.PartitionSpec(*[None] * aval.ndim)
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return aval.update(sharding=sharding, manual_axis_type=aval.mat.update(varying=axes))


def cpu_dispatch_is_asynchronous() -> bool:
    """Return whether the CPU backend dispatches asynchronously."""
    return xla_bridge._CPU_ENABLE_ASYNC_DISPATCH.value


hide_frames_of = traceback_util.register_exclusion


_JAX = os.path.dirname(jax.__file__) + os.sep

# If a newer JAX lacks this name, tracebacks are not filtered, and a test fails.
_filtering_mode: Any = getattr(traceback_util, "_filtering_mode", lambda: "off")
# JAX's list, to which the function above and other libraries append.
_hidden_paths: list[str] = traceback_util._exclude_paths


# Message of the exception by which JAX shows the line of a transformed operation.
_BEFORE_TRANSFORMATION = (
    "these lines call the operation whose derivative or batched form raised the exception below."
)


def hide_frames(error: BaseException) -> None:
    """Remove frames of libraries from the tracebacks of an error and of its causes, in place.

    Removed are frames of JAX and of the files passed to `hide_frames_of`. JAX's option
    ``jax_traceback_filtering`` changes this: ``"off"`` keeps all frames, and ``"tracebackhide"``
    only marks the frames for IPython.
    """
    mode = _filtering_mode()
    if mode == "off":
        return
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        frames = list(traceback.walk_tb(found.__traceback__))
        if mode == "tracebackhide":
            for frame, _ in frames:
                if _is_hidden(frame):
                    # IPython reads this local variable.
                    frame.f_locals["__tracebackhide__"] = True
        else:
            shown = None
            for frame, line in reversed(frames):
                if not _is_hidden(frame):
                    shown = TracebackType(shown, frame, frame.f_lasti, line)
            # Not by attribute assignment, which frozen dataclasses reject.
            BaseException.with_traceback(found, shown)
            if isinstance(found, source_info_util.JaxStackTraceBeforeTransformation):
                # JAX quotes the exception in this cause, so that it would be printed twice.
                found.args = (_BEFORE_TRANSFORMATION,)
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)


def _is_hidden(frame: FrameType) -> bool:
    """Return whether a frame is in a file of JAX, or in a file passed to `hide_frames_of`."""
    filename = frame.f_code.co_filename
    return filename.startswith(_JAX) or not _is_shown(filename, len(_hidden_paths))


@functools.lru_cache(maxsize=1024)
def _is_shown(filename: str, number_of_hidden_paths: int) -> bool:
    """Return whether JAX shows the frames of a file in tracebacks, from a cache.

    JAX's own test compares the file with each hidden path in the file system. The cache makes
    errors cheap: JAX probes each qjit function that it transforms for attributes that it lacks.

    Args:
        filename: file name of a code object.
        number_of_hidden_paths: a part of the cache key, so that a new path invalidates the cache.
    """
    return traceback_util.include_filename(filename)


def hold_weakly_in_caches(parameter_type: type[Any]) -> None:
    """Make JAX's caches reference arguments of a type weakly, to let them be freed.

    JAX drops a cache entry when such an object in its key is garbage-collected. Used for parameters
    of primitives that reference the user's functions.

    Args:
        parameter_type: a class whose objects can be referenced weakly.
    """
    util.weakref_cache_key_types.add(parameter_type)


class InputOutputEffect(callback.IOEffect):
    """JAX effect of unordered callbacks that must be neither dropped nor repeated.

    JAX treats it as its own ``IOEffect``, to which it compares equal: ``jax.vmap`` rejects
    conditionals with the effect, where both branches could run, and ``while`` loops with a mapped
    condition, which would continue for finished batch elements. The subclass is needed, since
    ``jax.checkpoint`` supports effects by their types and rejects ``IOEffect`` itself.
    """

    def __str__(self) -> str:
        return "InputOutput"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, callback.IOEffect)

    def __hash__(self) -> int:
        return hash(callback._IOEffect)


class Partitioning(enum.Enum):
    """How a module is partitioned over devices; see `get_partitioning`.

    Attributes:
        NONE: the module is for one device.
        AUTOMATIC: the compiler partitions the module.
        MANUAL: inside of ``jax.shard_map`` over all mesh axes.
        PARTLY_MANUAL: inside of ``jax.shard_map`` over some of the mesh axes.
    """

    NONE = enum.auto()
    AUTOMATIC = enum.auto()
    MANUAL = enum.auto()
    PARTLY_MANUAL = enum.auto()


def get_partitioning(context: mlir.ModuleContext) -> tuple[Partitioning, int]:
    """Return how the module that is being lowered is partitioned over devices.

    Returns:
        the kind of partitioning, and the number of devices.
    """
    axes = context.axis_context
    if isinstance(axes, sharding_impls.SPMDAxisContext):
        is_manual = axes.manual_axes == frozenset(axes.mesh.axis_names)
        return Partitioning.MANUAL if is_manual else Partitioning.PARTLY_MANUAL, axes.mesh.size
    if isinstance(axes, sharding_impls.ShardingContext) and axes.num_devices > 1:
        return Partitioning.AUTOMATIC, axes.num_devices
    return Partitioning.NONE, 1


def callback_sharding(ctx: mlir.LoweringRuleContext) -> Any:
    """Return the sharding annotation for the custom call of a JAX callback.

    With it, a partitioned module calls the callback once, with whole arrays; inside of
    ``jax.shard_map`` over all mesh axes it calls the callback on each device, with its shard.

    Returns:
        JAX's annotation, a list for Shardy or an ``OpSharding``; None if JAX annotates nothing in
        the module.

    Raises:
        NotImplementedError: inside of ``jax.shard_map`` over some of the mesh axes.
    """
    return callback._callback_op_sharding(ctx.module_context.axis_context, None, ctx.avals_out)


def mesh_is_set() -> bool:
    """Return whether a mesh is set by ``jax.set_mesh``."""
    abstract, concrete = sharding_impls.get_abstract_mesh(), sharding_impls.get_concrete_mesh()
    return not (abstract.empty and concrete.empty)


def without_varying_axes() -> contextlib.AbstractContextManager[None]:
    """Return a context in which JAX does not track varying axes in ``jax.shard_map``.

    Functions traced in the context are traced as with ``check_vma=False``.
    """
    return config._check_vma(False)


@contextlib.contextmanager
def without_mesh() -> Iterator[None]:
    """Return a context without the mesh that the user set by ``jax.set_mesh``.

    Used to trace functions that must not depend on that mesh.
    """
    if not mesh_is_set():
        # JAX's cache keys distinguish an empty mesh from no mesh, so setting an empty mesh would
        # miss.
        yield
        return
    with (
        jax.sharding.use_abstract_mesh(sharding_impls.empty_abstract_mesh),
        sharding_impls._internal_use_concrete_mesh(sharding_impls.empty_concrete_mesh),
    ):
        yield


def to_uncommitted(value: jax.Array) -> jax.Array:
    """Return an array, or random key, on the same device but not committed to it.

    JAX may then move it to the device of other arguments. The values are not copied.

    Args:
        value: an array on one device.
    """
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        data = to_uncommitted(jax.random.key_data(value))
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(value))
    return array.ArrayImpl(jax.typeof(value), value.sharding, [value], committed=False)


def raw_platform(device: jax.Device) -> str:
    """Return the platform for which JAX lowers a device's programs, such as ``cuda``."""
    return getattr(device.client, "_raw_platform", device.client.platform)


_bellhop_effects: tuple[type[Any], ...] = ()
_JAX_CALLBACK_EFFECTS = (
    *(debugging.DebugEffect, debugging.OrderedDebugEffect),
    *(callback.IOEffect, callback.OrderedIOEffect),
)


def is_bellhop_effect(effect: Any) -> bool:
    """Return whether an effect's type was registered by `register_effect`."""
    return isinstance(effect, _bellhop_effects)


def is_callback_effect(effect: Any) -> bool:
    """Return whether an effect belongs to a callback of Bellhop or JAX.

    All effect types of Bellhop count, including effects of its circuits.
    """
    return is_bellhop_effect(effect) or isinstance(effect, _JAX_CALLBACK_EFFECTS)


def register_effect(effect_type: type[Any]) -> None:
    """Make JAX accept an effect type of Bellhop wherever a program may have effects.

    JAX then lowers functions with such effects, and allows the effects in control flow, custom
    derivatives, partial evaluation and ``jax.checkpoint``. `is_bellhop_effect` is true for them.
    """
    global _bellhop_effects
    _bellhop_effects += (effect_type,)
    for allowed in (
        effects.lowerable_effects,
        effects.control_flow_allowed_effects,
        effects.custom_derivatives_allowed_effects,
        effects.partial_eval_kept_effects,
        effects.remat_allowed_effects,
    ):
        allowed.add_type(effect_type)


def register_ordered_effect(effect_type: type[Any]) -> None:
    """Make JAX accept an effect type, and keep operations with such effects in program order.

    As `register_effect`; in addition JAX threads a token through the operations.
    """
    register_effect(effect_type)
    for allowed in (effects.ordered_effects, effects.shardable_ordered_effects):
        allowed.add_type(effect_type)


def ordered_effects(jaxpr: ClosedJaxpr) -> list[Any]:
    """Return a jaxpr's ordered effects, in the order of their tokens in the module."""
    return effects.ordered_effects.filter_in(jaxpr.effects)


def is_traced_size_error(error: BaseException) -> bool:
    """Return whether JAX raised an exception because a shape or slice is traced.

    JAX raises a ``TypeError`` or ``IndexError`` in this case, as for other mistakes. This function
    searches the variables of the frame that raised the exception for a tracer in a shape or slice.
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

JAX_CALLBACK_PRIMITIVES = frozenset(
    primitive
    for module in (buffer_callback, callback, debugging)
    for name, primitive in vars(module).items()
    if isinstance(primitive, Primitive)
)


def lower_with_rules(
    traced: Any, rules: tuple[tuple[Primitive, Callable[..., Any]], ...]
) -> jax.stages.Lowered:
    """Lower a traced function for the CPU with lowering rules that override JAX's.

    Args:
        traced: JAX's ``Traced``, the result of ``jax.jit(f).trace(...)``.
        rules: pairs of a primitive and its lowering rule.
    """
    parameters = mlir.LoweringParameters(override_lowering_rules=rules)
    return traced.lower(lowering_platforms=("cpu",), _private_parameters=parameters)


def keepalive_functions(lowered: jax.stages.Lowered) -> list[Any]:
    """List the Python objects that a lowered program's executable must keep alive.

    These are functions called by JAX's callbacks, and all objects that lowering rules registered.

    Args:
        lowered: JAX's lowered program, not yet compiled.
    """
    held = lowered._lowering.compile_args
    return [*(held["host_callbacks"] or ()), *(held["keepalive"] or ())]


def equation_site() -> str | None:
    """Return the user's ``file:line`` of the equation that JAX is tracing or lowering.

    None if no frame of the user's code is inside of the innermost trace.
    """
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    return None if frame is None else f"{frame.file_name}:{frame.start_line}"


def equation_lines(eqn: Any) -> Iterator[tuple[str, int]]:
    """Yield file and line of the frames that traced an equation, innermost first.

    Only frames inside of the equation's innermost trace are known. Frames of JAX are skipped.
    """
    for frame in source_info_util.user_frames(eqn.source_info.traceback):
        yield frame.file_name, frame.start_line


def is_hidden_file(file: str) -> bool:
    """Return whether a library hides the frames of a file from JAX's tracebacks."""
    return not traceback_util.include_filename(file)


# The function is public, but jax 0.10.0 takes no context.
_IR_TYPE_TAKES_CONTEXT = len(inspect.signature(mlir.aval_to_ir_type).parameters) == 2


def ir_type(ctx: mlir.LoweringRuleContext, aval: Any) -> Any:
    """Return the MLIR type of an abstract value in the module that is being lowered."""
    if _IR_TYPE_TAKES_CONTEXT:
        return mlir.aval_to_ir_type(ctx.module_context, aval)
    return mlir.aval_to_ir_type(aval)
