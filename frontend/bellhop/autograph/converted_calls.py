"""Calls in converted functions, which convert the called user functions too."""

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from malt.operators import py_builtins

from bellhop.autograph import loops
from bellhop.autograph.settings import fall_back, is_disabled
from bellhop.autograph.transformer import Transformer
from bellhop.base.source import definition_site, function_name, make_call_from_site, user_site
from bellhop.control_flow.progress import progress, track_progress
from bellhop.tracing.state import current_options, override_trace_state, trace_state

# Packages that are not converted, including the standard library.
_LIBRARIES = {
    *("autograd", "bellhop", "bellhop_mlir", "bellhop_runtime", "catalyst", "flax", "jax"),
    *("jaxlib", "malt", "matplotlib", "ml_dtypes", "numpy", "optax", "pandas", "pennylane"),
    *("pennylane_lightning", "pytest", "scipy", "sympy", "tensorflow", "torch", "tqdm"),
    *sys.stdlib_module_names,
}

# Packages whose functions trace the functions in their arguments.
_TRACING = ("bellhop", "jax", "pennylane")

# Modules of these packages whose functions call their arguments in Python, outside of the program.
_OUTSIDE = (
    *("bellhop.callbacks", "bellhop.native", "bellhop.observers"),
    *("jax._src.callback", "jax._src.debugging", "jax.experimental"),
)

_IN_SCOPE: dict[Any, Callable[..., Any]] = {
    eval: py_builtins.eval_in_original_context,
    super: py_builtins.super_in_original_context,
}
_SCOPED = {
    globals: py_builtins.globals_in_original_context,
    locals: py_builtins.locals_in_original_context,
}

# Built-in functions that call their arguments.
_CALLING: tuple[Any, ...] = (map, filter, functools.reduce)


def with_autograph_modules(
    modules: Sequence[str], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Wrap a function so that autograph also converts functions of some modules while it runs.

    Args:
        modules: names of modules whose functions are converted too, such as modules of a library.
        function: the function, which traces the user's program.
    """

    @functools.wraps(function)
    def run_with_modules(*args: Any, **kwargs: Any) -> Any:
        """Call the wrapped function while autograph converts functions of ``modules`` too."""
        with override_trace_state(modules=(*trace_state().modules, *modules)):
            return function(*args, **kwargs)

    return run_with_modules


def converted_call(
    function: Any, args: tuple[Any, ...], kwargs: Any, scope: Any = None, options: Any = None
) -> Any:
    """Call a function from rewritten code; convert it by autograph first if it is a user's.

    AutoGraph replaces every call ``f(x)`` in a converted function by
    ``ag__.converted_call(f, (x,), None, scope)``.

    Args:
        function: the called function, or any callable.
        args: positional arguments.
        kwargs: keyword arguments, or None.
        scope: AutoGraph's scope of the caller, for ``eval``, ``super``, ``globals`` and ``locals``.
        options: not used.

    Returns:
        the function's result; for ``range`` and ``enumerate`` an object that compiled loops accept.
    """
    kwargs = kwargs or {}
    if not is_disabled():
        if function is range and not kwargs:
            return loops.range_(*args)
        if function is enumerate:
            return loops.TracedEnumerate(*args, **kwargs)
        if function is progress:
            return track_progress(*args, **kwargs)
    if function in (globals, locals):
        return _SCOPED[function](scope)
    if function is super or function is eval:
        return _IN_SCOPE[function](function, args, scope)
    return call_converted(function, args, kwargs)


# Rewrites functions, each once.
transformer = Transformer(converted_call)


def call_converted(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function, converting it by autograph first if it is a user's; return the result.

    Functions inside of partials and QNodes, methods ``__call__`` of users' objects, and functions
    that are passed to JAX, PennyLane, Bellhop, ``map``, ``filter`` and ``functools.reduce``, are
    converted too. Under ``disable_autograph`` nothing is converted.
    """
    if any(function is calling for calling in _CALLING) and not is_disabled():
        return function(*map(_convert_argument, args), **kwargs)
    if is_disabled():
        return function(*args, **kwargs)
    if inspect.isbuiltin(function) or isinstance(function, type):
        return make_call_from_site(user_site())(function, args, kwargs)
    if isinstance(function, functools.partial):
        keywords = {**function.keywords, **kwargs}
        return call_converted(function.func, (*function.args, *args), keywords)
    if _is_qnode(function):
        return with_converted_function(function, convert_or_same)(*args, **kwargs)
    if inspect.isfunction(function) or inspect.ismethod(function):
        if is_user_function(function):
            return convert_or_same(function)(*args, **kwargs)
    elif is_user_function(type(function).__call__):
        return convert_or_same(type(function).__call__)(function, *args, **kwargs)
    if _is_tracing_function(function):
        args, kwargs = (
            tuple(map(_convert_argument, args)),
            {k: _convert_argument(v) for k, v in kwargs.items()},
        )
    return make_call_from_site(user_site())(function, args, kwargs)


def with_converted_function(fn: Any, converted: Callable[[Any], Any]) -> Any:
    """Apply a conversion to a function, or to the quantum function of a QNode.

    Args:
        fn: a function or a QNode, which is not changed.
        converted: takes a Python function, returns the converted function.

    Returns:
        the converted function; for a QNode, a copy of the QNode with the converted function.
    """
    if not _is_qnode(fn):
        return converted(fn)
    qnode = copy.copy(fn)
    qnode.func = converted(fn.func)
    return qnode


def _is_qnode(value: object) -> bool:
    """Return whether a value is a QNode, without importing PennyLane."""
    qml = sys.modules.get("pennylane")
    return qml is not None and isinstance(value, getattr(qml, "QNode", ()))


def _convert_argument(value: Any) -> Any:
    """Convert an argument of a library function if it is a user's function or a QNode.

    ``jax.lax.map(f, xs)``, for example, traces its argument ``f``. Other values are returned as
    they are.
    """
    if _is_qnode(value):
        return with_converted_function(value, convert_or_same)
    if (inspect.isfunction(value) or inspect.ismethod(value)) and is_user_function(value):
        return convert_or_same(value)
    return value


def convert_or_same(function: Callable[..., Any]) -> Any:
    """Convert a user's function; if that fails, warn and return it unchanged.

    Args:
        function: any function; library functions are returned unchanged, without a warning.

    Returns:
        the converted function, or `function` itself.

    Raises:
        AutoGraphError: on failure in strict mode.
    """
    if not is_user_function(function):
        return function
    try:
        return transformer.convert(function)
    except Exception as error:
        name = function_name(function)
        fall_back(f"the function '{name}', defined at {definition_site(function)},", error)
        return function


def is_user_function(function: Callable[..., Any]) -> bool:
    """Return whether a function is Python code of the user, which autograph converts.

    False for functions of libraries, unless the user included their module; for generators and
    coroutines; for functions that are converted already, or whose source is not available.
    """
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or hasattr(function, "ag_unconverted"):
        return False
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    # Inner functions are rewritten together with the outer function.
    if hasattr(function, "autograph_info__") or "__autograph_generated_file" in code.co_filename:
        return False
    if code.co_filename == "<string>":
        return False
    # The module of a wrapper's code, since functools.wraps copies the user's module name.
    module = getattr(function, "__globals__", {}).get("__name__", "")
    if any(_is_within(module, name) for name in (*trace_state().modules, *_included_modules())):
        return True
    return module.partition(".")[0] not in _LIBRARIES


def _is_within(module: str, name: Any) -> bool:
    """Return whether a module, by its name, is the module or package `name` or in it."""
    name = getattr(name, "__name__", name)
    return module == name or module.startswith(f"{name}.")


def _is_tracing_function(function: Callable[..., Any]) -> bool:
    """Return whether a library function traces the functions that are passed to it.

    True for functions of Bellhop, JAX and PennyLane, except callbacks, whose arguments run in
    Python.
    """
    plain = function if hasattr(function, "__globals__") else type(function).__call__
    if (getattr(plain, "__module__", None) or "").startswith("bellhop."):
        # Decorators of Bellhop's functions are defined in other modules.
        plain = inspect.unwrap(plain)
    module = getattr(plain, "__globals__", {}).get("__name__") or getattr(
        function, "__module__", None
    )
    if not isinstance(module, str) or module.startswith(_OUTSIDE):
        return False
    return module.partition(".")[0] in _TRACING


def _included_modules() -> Sequence[str]:
    """Return the modules, or names of modules, in the option ``autograph_include``.

    Empty outside of a trace.
    """
    options = current_options()
    return () if options is None else tuple(options.autograph_include)
