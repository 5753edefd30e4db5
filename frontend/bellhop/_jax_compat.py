"""The only use of private JAX in this package, for jax 0.10 and 0.11.

Each name, what it is for, and why no public name serves:

* ``effects``: registers the effects of callbacks, and tells which of a program's have tokens;
  JAX's sets of effects have no public door.
* ``callback.IOEffect``: the effect by which JAX itself refuses what it cannot batch, such as
  a conditional on a mapped predicate; there is no public name for it.
* ``backends_are_initialized`` and ``cpu_dispatch_is_asynchronous``: how the CPU dispatches,
  and whether it is too late to choose; ``jax.config`` can set the option but not tell it.
* ``make_cpu_client``: another client beside JAX's, for programs that JAX's has no room for;
  ``jax.config`` can set neither how many it runs at a time nor a second one.
* ``loops._scan_known_hoisting``: the part of reverse mode that moves out of a loop whatever
  does not change in it, calls with effects included, which then run once instead of once a
  turn, and that forgets the rules of ``jax.custom_jvp`` functions in the loop, so that it has
  no second derivative; nothing public says what must stay.
* ``ExecuteReplicated._handle_token_bufs``: what JAX keeps of a failed run on several devices,
  by which all later ones fail.
* ``partial_eval_jaxpr_custom_rules`` and ``loops.pe``: where the same happens under
  ``jax.checkpoint``.
* ``weakref_cache_key_types``: keeps JAX's caches from holding on to what a primitive's
  parameters refer to, here users' functions; there is no public way.
* ``trace_state_clean``: whether a call stands under a transformation.  Public JAX has
  only the deprecated ``unsafe_*`` queries, which do not see every transformation.
* ``callback.emit_python_callback``: how JAX lowers its own callbacks, whose functions only the
  executable of their own module gets; public JAX registers a rule for each primitive, and the
  primitives are not public.
* ``lower_by``: lowers with rules that hold for one program alone; ``buffer_callback_p``: a
  primitive that needs one.  Public rules hold for all programs.
* ``functions_held_for``: what JAX would keep alive for a program, of which its module says nothing.
* ``source_info_util``: the user's line that an equation is from, which JAX puts into locations.
* ``run_compiled``: runs a compiled program without JAX's cache of fast calls, which refuses
  a program that calls itself in its first run; ``Compiled.__call__`` has no way around it.
* ``ExecuteReplicated.__call__``: to wait for programs that call us.
* ``pjit._get_fastpath_data`` and ``pxla.MeshExecutable.create_cpp_call``: which programs JAX
  runs from its cache of fast calls, whose C++ raises ``ValueError(text)`` whatever failed;
  nothing public chooses.
* ``choose_platforms_of_jits``: lowers a nested ``jit`` for the platform that it will run on,
  with that platform's own rules; public JAX lowers a module for one platform, or all of it for
  several.
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
* ``custom_lin_p``: what is left of a ``jax.custom_vjp`` function in forward mode, where JAX says
  no more than that it cannot; public JAX does not say whose rules they are.
* ``dce_rules``: which values a loop may carry no further; JAX 0.10 keeps them all.
* ``traceback_util``: which frames JAX leaves out of the tracebacks that users see, and how
  ``jax_traceback_filtering`` says; public JAX has the option alone.
* ``core.is_concrete`` and ``core.concrete_or_error``: what PennyLane 0.45 asks of tracers and
  arrays by former public names, which jax 0.11 removed; they are put back there.
"""

import contextlib
import enum
import inspect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax._src import (  # noqa: TID251
    array,
    buffer_callback,
    callback,
    core,
    dispatch,
    effects,
    pjit,
    sharding_impls,
    source_info_util,
    traceback_util,
    util,
    xla_bridge,
)
from jax._src.interpreters import ad, partial_eval, pxla  # noqa: TID251
from jax._src.lax.control_flow import loops  # noqa: TID251
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Primitive
from jax.extend.core.primitives import custom_jvp_call_p, jit_p
from jax.interpreters import batching, mlir

__all__ = [
    "InputOutputEffect",
    "Partitioning",
    "backends_are_initialized",
    "buffer_callback_p",
    "choose_platforms_of_jits",
    "convert_constvars_jaxpr",
    "cpu_dispatch_is_asynchronous",
    "hide_frames",
    "hide_frames_of",
    "emit_callbacks_by",
    "explain_forward_mode",
    "forget_lowering",
    "functions_held_for",
    "hold_weakly_in_caches",
    "ir_type",
    "jvp_jaxpr",
    "keep_rules_around",
    "lower_by",
    "make_cpu_client",
    "mesh_is_set",
    "ordered_effects",
    "over_axes",
    "partial_eval_jaxpr_nounits",
    "partitioning",
    "raise_what_failed",
    "raw_platform",
    "register_effect",
    "register_ordered_effect",
    "run_compiled",
    "run_without_fast_calls",
    "set_unused_rule",
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


def set_unused_rule(
    primitive: Primitive,
    rule: Callable[[list[bool], JaxprEqn], tuple[list[bool], JaxprEqn | None]],
) -> None:
    """Say what is left of a primitive some of whose results nobody uses, where JAX does not."""
    partial_eval.dce_rules.setdefault(primitive, rule)


def transpose_jaxpr(
    closed: ClosedJaxpr, inputs: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the cotangents of the undefined ones among the inputs of a linear jaxpr."""
    return list(ad.backward_pass(closed.jaxpr, False, closed.consts, inputs, cotangents))


def explain_forward_mode(backward: Callable[..., Any], make_error: Callable[[], Exception]) -> None:
    """Let forward mode through the ``jax.custom_vjp`` function of a backward rule say more."""
    backward.forward_mode_error = make_error  # type: ignore[attr-defined]


# None where a newer JAX has it no more; a test tells.
_linear_part: Any = getattr(ad, "custom_lin_p", None)


def _refuse_forward_mode(*args: Any, bwd: Any, **params: Any) -> Any:
    make_error = getattr(getattr(bwd, "f", None), "forward_mode_error", None)
    if make_error is not None:
        raise make_error()
    ad.raise_custom_vjp_error_on_jvp(*args, **params)


if _linear_part is not None:
    _linear_part.def_impl(_refuse_forward_mode)
    batching.primitive_batchers[_linear_part] = _refuse_forward_mode
    mlir.register_lowering(_linear_part, _refuse_forward_mode, cacheable=False)


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


def choose_platforms_of_jits(
    choose: Callable[[str], tuple[str, dict[str, Any]] | None],
) -> None:
    """Let the name of a nested ``jit`` decide what platform it is lowered for.

    Args:
        choose: takes the name; returns the platform, and where to keep what was lowered for
            other platforms in the same module, or None for the platform of the module.
    """
    lower_jit = pjit._pjit_lowering

    def lower(ctx: Any, *args: Any, name: str, **params: Any) -> Any:
        chosen = choose(name)
        if chosen is not None:
            platform, caches = chosen
            old = ctx.module_context
            if tuple(old.platforms) != (platform,):
                # The module's own functions are lowered for its own platform.
                own, primitives = caches.setdefault(platform, ({}, {}))
                ctx = ctx.replace(
                    module_context=old.replace(
                        platforms=(platform,),
                        backend=None,
                        lowering_cache=own,
                        cached_primitive_lowerings=primitives,
                    )
                )
        return lower_jit(ctx, *args, name=name, **params)

    mlir.register_lowering(jit_p, lower, cacheable=False)


if jax.__version_info__ >= (0, 11):
    jax.core.is_concrete = core.is_concrete  # type: ignore[attr-defined]
    jax.core.concrete_or_error = core.concrete_or_error  # type: ignore[attr-defined]

_our_effects: tuple[type[Any], ...] = ()
# None where a newer JAX has it no more; a test tells whether that JAX hoists effects.
_hoist_what_is_known: Any = getattr(loops, "_scan_known_hoisting", None)


# Primitives that have no derivative but by the rule of a function around them.
_known_by_rules: set[Any] = set()


def keep_rules_around(primitive: Any) -> None:
    """Keep the rules of ``jax.custom_jvp`` functions around a primitive, to any order."""
    _known_by_rules.add(primitive)


def _must_stay_whole(jaxpr: ClosedJaxpr) -> bool:
    """Tell whether nothing may be hoisted out of a loop of this body."""
    has_effect = any(isinstance(effect, _our_effects) for effect in jaxpr.effects)
    return has_effect or _needs_rule(jaxpr.jaxpr, has_rule=False)


def _needs_rule(jaxpr: Any, *, has_rule: bool) -> bool:
    """Tell whether a rule, here or around, stands for the derivative of a primitive within."""
    for eqn in jaxpr.eqns:
        if has_rule and eqn.primitive in _known_by_rules:
            return True
        has_rule_within = has_rule or eqn.primitive is custom_jvp_call_p
        for inner in core.jaxprs_in_params(eqn.params):
            if _needs_rule(inner, has_rule=has_rule_within):
                return True
    return False


def _hoist_without_effects(
    jaxpr: ClosedJaxpr, consts: Any, num_residuals: int, *stacked: int
) -> Any:
    """Hoist as JAX does, but nothing out of a loop with one of our effects, or of our rules.

    JAX 0.11 also says how many further residuals it will not hoist.
    """
    if _must_stay_whole(jaxpr):
        return jaxpr, consts, [False] * num_residuals, []
    return _hoist_what_is_known(jaxpr, consts, num_residuals, *stacked)


if _hoist_what_is_known is not None:
    loops._scan_known_hoisting = _hoist_without_effects


class _PartialEvalOfLoops:
    """JAX's ``partial_eval``, as its loops see it, which can be told to hoist nothing."""

    def __init__(self) -> None:
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(partial_eval, name)

    @contextlib.contextmanager
    def hoisting_nothing(self) -> Iterator[None]:
        before = getattr(self._thread, "hoists_nothing", False)
        self._thread.hoists_nothing = True
        try:
            yield
        finally:
            self._thread.hoists_nothing = before

    def partial_eval_jaxpr_nounits(
        self, jaxpr: ClosedJaxpr, unknowns: Any, instantiate: Any
    ) -> tuple[ClosedJaxpr, ClosedJaxpr, list[bool], list[Any]]:
        """Split a jaxpr as JAX does, or so that the first part hands on what is known."""
        if not getattr(self._thread, "hoists_nothing", False):
            return partial_eval.partial_eval_jaxpr_nounits(jaxpr, unknowns, instantiate)
        are_known = [not is_unknown for is_unknown in unknowns]
        known = list(itertools.compress(jaxpr.in_avals, are_known))
        hand_on = jax.make_jaxpr(lambda *values: values)(*known)
        names = jaxpr.jaxpr.debug_info.with_unknown_names()
        hand_on = ClosedJaxpr(hand_on.jaxpr.replace(debug_info=names), hand_on.consts)
        loop = partial_eval.move_binders_to_front(jaxpr, are_known)
        return hand_on, loop, [True] * len(jaxpr.out_avals), known


_partial_eval_of_loops = _PartialEvalOfLoops()
loops.pe = _partial_eval_of_loops

_split_checkpointed_scan = partial_eval.partial_eval_jaxpr_custom_rules[loops.scan_p]


def _split_without_hoisting_effects(
    saveable: Any, unknown: Any, instantiated: Any, eqn: Any
) -> tuple[Any, ...]:
    """Split a checkpointed loop as JAX does, but hoist nothing out of what must stay whole."""
    if not _must_stay_whole(eqn.params["jaxpr"]):
        return _split_checkpointed_scan(saveable, unknown, instantiated, eqn)
    with _partial_eval_of_loops.hoisting_nothing():
        split = _split_checkpointed_scan(saveable, unknown, instantiated, eqn)
    known = split[0]
    if known is not None and "call_jaxpr" in known.params:
        # The loop itself is the last; what stands before it was hoisted.
        for hoisted in known.params["call_jaxpr"].eqns[:-1]:
            if any(isinstance(effect, _our_effects) for effect in hoisted.effects):
                raise NotImplementedError(
                    "this version of JAX would call a callback in a loop under jax.checkpoint "
                    "once instead of once a turn, since its arguments are the same in each. "
                    "Give it an argument that changes, such as the index of the loop, or put "
                    "jax.checkpoint around the body of the loop."
                )
    return split


partial_eval.partial_eval_jaxpr_custom_rules[loops.scan_p] = _split_without_hoisting_effects


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


# None where a newer JAX has it no more; a test tells whether that JAX is poisoned by failures.
_take_over_tokens: Any = getattr(pxla.ExecuteReplicated, "_handle_token_bufs", None)


def _take_over_good_tokens(run: Any, token_buffers: Any, runtime_tokens: Any) -> None:
    """Raise where a run on several devices failed, before its tokens are those of the next run.

    JAX takes them over as they are, and then every later run with such an effect fails alike.
    """
    if any(isinstance(effect, _our_effects) for effect in run.ordered_effects):
        try:
            jax.block_until_ready(token_buffers)
        except Exception:
            for effect in run.ordered_effects:
                dispatch.runtime_tokens.current_tokens.pop(effect, None)
            raise
    _take_over_tokens(run, token_buffers, runtime_tokens)


if _take_over_tokens is not None:
    pxla.ExecuteReplicated._handle_token_bufs = _take_over_good_tokens


def run_compiled(compiled: jax.stages.Compiled, /, *args: Any, **kwargs: Any) -> Any:
    """Run a compiled program; it may run itself while it runs."""
    results, *_ = compiled.call(compiled._params, *args, **kwargs)
    return results


def raise_what_failed(exception_behind: Callable[[str], BaseException | None]) -> None:
    """Let a failed run raise the exception that is behind its text, where there is one.

    XLA's C++ makes its error by calling ``jax.errors.JaxRuntimeError`` with a text, so what the
    class answers is what is raised.  Texts that nothing is behind make the same as before.
    """
    error_type = jax.errors.JaxRuntimeError
    make = error_type.__new__

    def new(cls: type[Exception], *args: Any, **kwargs: Any) -> BaseException:
        if cls is error_type and args:
            # Python asks again with an answer that is not of the class.
            if isinstance(args[0], BaseException):
                return args[0]
            exception = exception_behind(args[0]) if isinstance(args[0], str) else None
            if exception is not None:
                return exception
        return make(cls, *args, **kwargs)

    error_type.__new__ = new


# None where a newer JAX has them no more; a test tells what its fast calls raise.
_fast_call: Any = getattr(pjit, "_get_fastpath_data", None)
_fast_call_ahead_of_time: Any = getattr(pxla.MeshExecutable, "create_cpp_call", None)


_run_replicated = pxla.ExecuteReplicated.__call__


def run_without_fast_calls(is_meant: Callable[[Any], bool], before: Callable[[], None]) -> None:
    """Keep programs out of JAX's cache of fast calls, and wait for them, by what they keep alive.

    A program begins late where an argument is still on its way, and must find what it needs
    alive then, though its ``jit`` may be dropped as soon as the call has returned.

    Args:
        is_meant: tells of an object that a program keeps alive whether this is one.
        before: called in the thread of the caller before each run.
    """

    def is_slow(executable: Any) -> bool:
        kept = getattr(getattr(executable, "unsafe_call", None), "keepalive", None)
        return any(map(is_meant, kept or ()))

    def fast_call(executable: Any, *args: Any, **kwargs: Any) -> Any:
        return None if is_slow(executable) else _fast_call(executable, *args, **kwargs)

    def fast_call_ahead_of_time(executable: Any, *args: Any, **kwargs: Any) -> Any:
        if is_slow(executable):
            return None
        return _fast_call_ahead_of_time(executable, *args, **kwargs)

    def run_to_the_end(run: Any, *args: Any) -> Any:
        if not any(map(is_meant, run.keepalive or ())):
            return _run_replicated(run, *args)
        before()
        return jax.block_until_ready(_run_replicated(run, *args))

    pxla.ExecuteReplicated.__call__ = run_to_the_end  # type: ignore[method-assign]
    if _fast_call is not None:
        pjit._get_fastpath_data = fast_call
    if _fast_call_ahead_of_time is not None:
        pxla.MeshExecutable.create_cpp_call = fast_call_ahead_of_time


buffer_callback_p = buffer_callback.buffer_callback_p


def emit_callbacks_by(emit: Callable[..., Any], where: Callable[[], bool]) -> None:
    """Lower JAX's own callbacks in another way than JAX does.

    Args:
        emit: takes and returns what ``emit_python_callback`` does.
        where: tells whether to, for what is being lowered.
    """
    emit_by_jax = callback.emit_python_callback

    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (emit if where() else emit_by_jax)(*args, **kwargs)

    # The second is its public name, which other libraries' rules use.
    callback.emit_python_callback = mlir.emit_python_callback = chosen


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
