"""`accelerate`: run a ``jax.jit``-compatible function on a chosen device."""

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

import jax
import numpy as np

from bellhop._jax.fast_dispatch import ARRAY
from bellhop._jax.patches.jit_platforms import choose_jit_platforms
from bellhop._jax.private import (
    AT_TOP_LEVEL,
    DEFAULT_DEVICE,
    VALUE_OF,
    backends_are_initialized,
    equation_site,
    hide_frames,
    trace_state_clean,
)
from bellhop.arguments.accepted_arguments import check_not_transformation
from bellhop.arguments.donation_errors import check_not_passed_twice
from bellhop.arguments.signature import check_arrays, flatten_result, is_rejected_array
from bellhop.arguments.static_arguments import StaticArguments, parse_names, parse_positions
from bellhop.base.pickling import PickledByName
from bellhop.base.public_function import public_function
from bellhop.base.source import (
    callable_site,
    describe_derived_function,
    function_name,
    make_call_from_site,
)
from bellhop.base.value_checks import check_no_measurements
from bellhop.compiler.deadlock_check import check_device_not_waiting, get_waiting_devices
from bellhop.compiler.lowering_context import current_lowering
from bellhop.devices.devices import (
    StateAxes,
    Target,
    find_sharding,
    find_state_axes,
    find_target,
    resolve_target,
    target_name,
    target_platform,
)
from bellhop.errors import CompileError, suggest_name
from bellhop.mesh.recompute_in_backward import recompute_partitioned_states
from bellhop.tracing.state import override_trace_state
from bellhop.tracing.traced_formatting import explain_formatting
from bellhop.tracing.traced_value_errors import advise_on_traced_value
from bellhop_mlir.region_name import RegionName

P = ParamSpec("P")
R = TypeVar("R")

# Types of arguments without a device, to which `_move_arrays` does nothing.
_NOT_PLACED = frozenset({float, int, bool, complex, np.ndarray})
_TRACE, _NO_TRACE, _AXES, _NO_AXES = AT_TOP_LEVEL
# Exceptions of ``jax.jit`` for arguments that it rejects.
_REJECTED = (TypeError, ValueError, OverflowError, jax.errors.JaxRuntimeError)


class AcceleratedFunction(PickledByName):
    """A function whose calls run on a chosen device: the result of ``accelerate``.

    While JAX traces, a call becomes a *region*: a nested ``jax.jit`` whose name contains the
    device, which Bellhop's compiler turns into a program for that device. Outside of traces, a call
    runs at once on the device, to which it copies arguments. As a class attribute, the object binds
    to instances like a function.

    Args:
        function: the user's function of pytrees of arrays.
        dev: the device, in a form that ``accelerate`` accepts; None for JAX's default device.
        options: options for ``jax.jit``, such as ``static_argnums``.
    """

    def __init__(self, function: Callable[..., Any], dev: Any, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._dev = dev
        self._options = options
        self._regions: dict[Target, Callable[..., Any]] = {}
        # The device of the last call without a default device, outside of traces, and its region.
        self._last_target: Target | None = None
        self._last_region: Callable[..., Any] | None = None
        # By instance, if the function is a class attribute.
        self._methods: weakref.WeakKeyDictionary[Any, AcceleratedFunction] = (
            weakref.WeakKeyDictionary()
        )
        # Looking up a name initializes JAX's devices, which the user may still want to configure.
        if dev is not None and (backends_are_initialized() or not isinstance(dev, str)):
            resolve_target(dev, self._where)

    @functools.cached_property
    def _where(self) -> str:
        """Description of the function in errors."""
        return describe_derived_function("accelerate", self._function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function on its device."""
        try:
            if (region := self._last_region) is not None and self._can_call_last(args, kwargs):
                try:
                    return region(*args, **kwargs)
                except _REJECTED as error:
                    self._explain_rejection(args, kwargs, error)
                    raise
            target = resolve_target(self._dev, self._where)
            region = self._regions.get(target)
            if region is None:
                states = find_state_axes(self._dev)
                region = _make_region(self._function, target, states, self._options)
                self._regions[target] = region
            if trace_state_clean():
                check_device_not_waiting(target_name(target), function_name(self._function))
                if isinstance(target, jax.Device) and DEFAULT_DEVICE.value is None:
                    self._last_region, self._last_target = region, target
            given = args, kwargs
            try:
                if trace_state_clean():
                    args, kwargs = _move_arrays(given, target, commits=self._dev is not None)
                if trace_state_clean() or equation_site() is not None:
                    return region(*args, **kwargs)
                # The function itself is traced: no line of the user's code calls it.
                return make_call_from_site(callable_site(self._function))(region, args, kwargs)
            except _REJECTED as error:
                self._explain_rejection(*given, error)
                raise
        except Exception as error:
            hide_frames(error)
            raise

    def _can_call_last(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call can reuse the device and ``jax.jit`` of the last call.

        The reused ``jax.jit`` function takes a tenth of the time of a full call, which looks up the
        device and copies arguments. True outside of traces, transformations and callbacks, without
        ``jax.default_device``, if each argument is an array or number of these kinds:

        - an array that is committed to the device of the last call;
        - without the user's `dev` also an uncommitted array, a Python number, or a NumPy array in
          this machine's byte order, without a mask.
        """
        if (
            VALUE_OF(_TRACE) is not _NO_TRACE
            or VALUE_OF(_AXES) is not _NO_AXES
            or DEFAULT_DEVICE.value is not None
            or get_waiting_devices()
        ):
            return False
        commits = self._dev is not None
        for arg in (*args, *kwargs.values()) if kwargs else args:
            if type(arg) is ARRAY:
                if arg._committed:
                    if arg.device is not self._last_target:
                        return False
                elif commits:
                    return False
            elif commits or type(arg) not in _NOT_PLACED or is_rejected_array(arg):
                return False
        return True

    def __repr__(self) -> str:
        name = function_name(self._function)
        return f"<accelerate '{name}'{'' if self._dev is None else f' on {self._dev}'}>"

    def _explain_rejection(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
    ) -> None:
        """Raise an error that names an invalid argument of a call, if there is one.

        Called when ``jax.jit`` has rejected the call with an error that does not name the argument.
        Nothing is raised if all dynamic arguments are valid.

        Args:
            args: positional arguments of the accelerated function, static arguments included.
            kwargs: keyword arguments of the accelerated function.
            error: exception of ``jax.jit``, which becomes the cause of an error about donation.

        Raises:
            TypeError: if an argument that is not static has a leaf that is not an array or a
                number, or a dictionary whose keys cannot be sorted.
            OverflowError: if an integer does not fit in any dtype of JAX.
            ValueError: if a donated array is passed twice.
        """
        options = self._options
        static = StaticArguments(
            self._function,
            options.get("static_argnums"),
            options.get("static_argnames"),
            "accelerate",
        )
        where = self._where
        positions = parse_positions("donate_argnums", options.get("donate_argnums"))
        _, args, kwargs = static.split(args, kwargs)
        check_not_transformation("accelerate", self._function, args)
        names = static.dynamic_names()
        check_arrays(where, names, args, kwargs)
        donated = static.select_donated(
            # The `jax.jit` of a region ignores negative positions.
            [each for each in positions if each >= 0] or None,
            options.get("donate_argnames"),
        )
        if donated:
            check_not_passed_twice(where, names, donated, args, kwargs, error)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # An instance that is a pytree is an argument, and argnums count the instance.
        is_argument = not jax.tree_util.all_leaves([instance])
        if is_argument or not self._options.keys() <= {"static_argnames", "donate_argnames"}:
            return functools.partial(self, instance)
        try:
            known = self._methods.get(instance)
        except TypeError:
            # Not hashable: compiled again at each access.
            return _AcceleratedMethod(self._bind_method(instance), instance)
        if known is None:
            known = self._methods[instance] = self._bind_method(instance)
        return _AcceleratedMethod(known, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        return AcceleratedFunction, (self._function, self._dev, self._options)

    def _bind_method(self, instance: Any) -> "AcceleratedFunction":
        """Make an accelerated function that passes the instance as first argument.

        It references the instance weakly, so a cache of these functions does not keep instances
        alive.

        Args:
            instance: the first argument of the user's function, which is not a pytree.
        """
        function, reference = self._function, weakref.ref(instance)

        def method(*args: Any, **kwargs: Any) -> Any:
            """Call the user's function with the instance and these arguments."""
            return function(reference(), *args, **kwargs)

        functools.update_wrapper(method, function)
        method.__signature__ = inspect.signature(  # type: ignore[attr-defined]
            function.__get__(instance)
        )
        return AcceleratedFunction(method, self._dev, self._options)


class _AcceleratedMethod:
    """A bound accelerated method: the value of ``instance.method``.

    The accelerated function references the instance weakly; this object keeps the instance alive
    during a call.

    Args:
        region: the accelerated function of the remaining arguments, bound to the instance.
        instance: the instance, held only to keep it alive.
    """

    def __init__(self, region: AcceleratedFunction, instance: Any) -> None:
        functools.update_wrapper(self, region, updated=())
        self._region = region
        self._instance = instance

    def __repr__(self) -> str:
        return f"<bound {repr(self._region)[1:-1]}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._region(*args, **kwargs)


def _move_arrays(tree: Any, target: Target, *, commits: bool) -> Any:
    """Copy the arrays in a call's arguments to the device of an accelerated function.

    JAX would otherwise raise an error for arrays that are committed to another device. A mesh with
    explicit axes is replaced by the same mesh with automatic axes, as regions are traced without
    explicit axes.

    Args:
        tree: a pytree of arguments; leaves that are not arrays may be static arguments.
        target: a device, or a sharding.
        commits: whether to move uncommitted arrays too; JAX places them itself if false.

    Returns:
        the pytree with arrays on the device; its other leaves are unchanged.

    Raises:
        TypeError: for a NumPy array that JAX rejects.
    """
    if isinstance(target, jax.sharding.NamedSharding):
        mesh = target.mesh
        kinds = (jax.sharding.AxisType.Auto,) * len(mesh.axis_names)
        automatic = jax.sharding.Mesh(mesh.devices, mesh.axis_names, axis_types=kinds)
        target = jax.sharding.NamedSharding(automatic, target.spec, memory_kind=target.memory_kind)

    def move(leaf: Any) -> Any:
        """Copy a leaf to the device; return it unchanged if it needs no copy.

        Unchanged are leaves that are not arrays, and uncommitted arrays unless `commits` is true.
        """
        if is_rejected_array(leaf):
            # `_explain_rejection` raises an error that names the argument.
            raise TypeError(
                f"the array of dtype {leaf.dtype} is masked, or in another byte order than this "
                "machine's. Convert it to a JAX array."
            )
        if not hasattr(leaf, "dtype") or not (commits or getattr(leaf, "committed", False)):
            return leaf
        return jax.device_put(leaf, find_sharding(target, jax.numpy.shape(leaf)))

    return jax.tree.map(move, tree)


def _make_region(
    function: Callable[..., Any],
    target: Target,
    state_axes: StateAxes | None,
    options: dict[str, Any],
) -> Callable[..., Any]:
    """Make a ``jax.jit`` function whose name marks its calls as regions on a device.

    A region is code that is compiled for a chosen device. JAX's rules for ``jit`` keep the name, so
    the MLIR pass outline-regions finds every function that differentiation and batching derive from
    the region. The first use patches JAX's lowering of nested ``jit`` functions.

    Args:
        function: the user's function.
        target: device or sharding of the region.
        state_axes: mesh axes over which circuits in the region partition their state vector; None
            if they do not partition it.
        options: options for ``jax.jit``.

    Returns:
        the ``jax.jit`` function, with the arguments and results of `function`.
    """

    choose_jit_platforms(_find_region_platform)
    explain_formatting()
    # Residuals between the forward and the backward region must not be partitioned states.
    platform = target_platform(target)
    call = function if state_axes is None else recompute_partitioned_states(function)

    def region(*args: Any, **kwargs: Any) -> Any:
        """Trace the user's function for the device of the region; return its result.

        ``jax.jit`` calls this function with tracers, and with the values of static arguments.

        Raises:
            CompileError: if the function cannot be traced, or returns a measurement or a leaf that
                is not an array.
        """
        try:
            with override_trace_state(in_region=True, platform=platform, state_axes=state_axes):
                result = call(*args, **kwargs)
        except Exception as error:
            advice = advise_on_traced_value(error)
            if advice is None:
                raise
            raise _not_jittable_error(function, error, advice) from error
        check_no_measurements(describe_derived_function("accelerate", function), result)
        try:
            flatten_result(describe_derived_function("accelerate", function), result)
        except TypeError as error:
            raise CompileError(str(error)) from error
        return result

    # JAX looks up the names of static arguments in the user's signature.
    region.__wrapped__ = function  # type: ignore[attr-defined]
    name = str(RegionName(target_name(target), function_name(function)))
    region.__name__ = region.__qualname__ = name
    return jax.jit(region, **options)


def _find_region_platform(name: str) -> tuple[str, dict[str, Any]] | None:
    """Find the platform for which JAX lowers a nested ``jit`` that is a region.

    JAX's lowering, which Bellhop patches, calls this function for each nested ``jit``.

    Args:
        name: name of the ``jit`` function; the name of a region contains its device.

    Returns:
        the platform, such as ``"cuda"``, and a dictionary from platform to JAX's cache of lowered
        functions, which belongs to the module that is being lowered. None if the function is not a
        region or the module is not lowered by Bellhop: then JAX uses the module's platform.
    """
    region = RegionName.parse(name)
    lowering = current_lowering()
    # In a plain `jax.jit`, a region runs on the devices of that program.
    if region is None or lowering is None:
        return None
    return target_platform(find_target(region.device)), lowering.platform_caches


def _not_jittable_error(
    function: Callable[..., Any], error: Exception, advice: str
) -> CompileError:
    """Create the error for a function that ``jax.jit`` cannot trace.

    Args:
        function: the user's function, named in the message.
        error: the exception that tracing raised; the message quotes its first line.
        advice: sentences with the user's line and a remedy, as of `advise_on_traced_value`.
    """
    cause = str(error).splitlines()[0].rstrip(".")
    # A callback gets no values of other traced functions either.
    is_leak = isinstance(error, jax.errors.UnexpectedTracerError)
    remedy = "" if is_leak else " Or call the function without tracing: bellhop.pure_callback."
    return CompileError(
        f"{describe_derived_function('accelerate', function)} cannot be traced by "
        f"jax.jit: {cause}. At{advice.removeprefix('at')}{remedy}"
    )


@overload
def accelerate(func: Callable[P, R], *, dev: Any = None, **jit_options: Any) -> Callable[P, R]: ...
@overload
def accelerate(
    func: None = None, *, dev: Any = None, **jit_options: Any
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@public_function
def accelerate(
    func: Callable[..., Any] | None = None, *, dev: Any = None, **jit_options: Any
) -> Any:
    """Run a ``jax.jit``-compatible function on a chosen device.

    Shapes follow from abstract evaluation and derivatives from JAX: the function needs no rules.
    On the program's own device the function becomes part of the program; for a different device it
    is compiled together with the program, and called at run time.  ``accelerate`` nests and
    composes like ``jax.jit``.

    Outside of ``qjit``, a direct call also runs on the device.  In a plain ``jax.jit`` the function
    runs on the devices of that program; under an eager transformation, such as
    ``jax.grad(accelerate(f))``, on the device of its arguments.

    Args:
        func: the function of pytrees of arrays.
        dev: a ``jax.Device``; ``"platform"`` or ``"platform:id"``; a list of these, over which the
            region is sharded along the first axis of its arguments, as over a
            ``jax.sharding.Mesh``; or a ``jax.sharding.Sharding`` of its arguments.  Arguments that
            cannot be sharded this way are copied to each device.  The function may contain a
            ``jax.shard_map`` or ``with_sharding_constraint`` over a mesh with equally many devices,
            whose axes are ``AxisType.Auto``.  None is JAX's default device when the program is
            compiled.  The state of a QNode on ``default.qubit`` or ``lightning.qubit`` is
            partitioned over the axes of a mesh; for a ``NamedSharding``, over the axes that its
            spec does not name.
        jit_options: ``static_argnums``, ``static_argnames``, ``donate_argnums`` and
            ``donate_argnames`` of ``jax.jit``.  Inside ``qjit``, arguments on a different device
            are copies, which are always donated.

    Returns:
        a function with the signature of ``func``; without ``func``, a decorator.

    Raises:
        TypeError: if ``func`` is not a function, for other options of ``jax.jit``, and for other
            types of ``dev``.
        CompileError: when traced, if JAX cannot trace ``func``; names it.
        ValueError: if the device does not exist; lists the existing devices. A name is checked at
            once if JAX's devices are initialized, and otherwise when the function is called.

    Example:
        >>> import bellhop, jax, jax.numpy as jnp
        >>> @bellhop.qjit
        ... @bellhop.grad
        ... def f(x):
        ...     return jnp.sum(bellhop.accelerate(jax.scipy.linalg.expm)(jnp.sin(x)) ** 2)
        >>> f(jnp.array([[0.1, 0.2], [0.3, 0.4]]))
        Array([[2.80120452, 1.67518663],
               [1.61605839, 4.42856163]], dtype=float64)

    Same interface as Catalyst's ``accelerate``, with the options of ``jax.jit``.
    """
    unknown = jit_options.keys() - _JIT_OPTIONS
    if unknown:
        raise TypeError(
            f"accelerate has no options {', '.join(sorted(unknown))}, expected func, dev and "
            f"{', '.join(sorted(_JIT_OPTIONS))}."
            f"{''.join(suggest_name(name, _JIT_OPTIONS | {'dev'}) for name in sorted(unknown))}"
        )
    for option, given in jit_options.items():
        parse = parse_names if option.endswith("names") else parse_positions
        parse(option, given, "accelerate")
    if func is None:
        return functools.partial(accelerate, dev=dev, **jit_options)
    if not callable(func) or inspect.isclass(func):
        raise TypeError(
            f"accelerate takes a function, got {func!r}. Pass the function first, and the device "
            "by the option dev: accelerate(f, dev=...)."
        )
    return AcceleratedFunction(func, dev, jit_options)


_JIT_OPTIONS = frozenset({"static_argnums", "static_argnames", "donate_argnums", "donate_argnames"})
