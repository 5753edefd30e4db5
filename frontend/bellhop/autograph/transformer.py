"""Converting functions: control flow becomes calls of ours, calls convert what they call.

The source is rewritten by diastatic-malt, the library that AutoGraph of TensorFlow lives on in;
what the rewritten code calls is ``bellhop.autograph``.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from malt.converters import (
    break_statements,
    call_trees,
    conditional_expressions,
    continue_statements,
    control_flow,
    directives,
    functions,
    logical_expressions,
    return_statements,
    slices,
    variables,
)
from malt.core import converter, unsupported_features_checker
from malt.impl.api import PyToPy
from malt.operators.function_wrappers import FunctionScope

from bellhop._source import (
    definition_site,
    function_name,
    generated_line,
    register_generated,
    user_site,
)
from bellhop.autograph import assertions, assignments, branches, loops
from bellhop.autograph.state import is_traced, is_undefined
from bellhop.errors import AutoGraphError
from bellhop.tracing import converting, current_options

_OPTIONS = converter.ConversionOptions(
    recursive=True,
    user_requested=False,
    internal_convert_user_code=True,
    optional_features=converter.Feature.BUILTIN_FUNCTIONS,
)

# Each leaves what the next understands.
_STEPS = (
    functions,
    directives,
    break_statements,
    continue_statements,
    return_statements,
    assertions,
    assignments,
    slices,
    call_trees,
    control_flow,
    conditional_expressions,
    logical_expressions,
    variables,
)


class _Scope(FunctionScope):
    """The body of a converted function."""

    def ret(self, value: Any, did_return: Any) -> Any:
        """Return what the function returns.

        Raises:
            AutoGraphError: where that depends on a condition that the program computes.
        """
        if is_traced(did_return) and not is_undefined(value):
            raise AutoGraphError(
                f"the function at {user_site()} returns a value under a condition that the program "
                "computes, and none otherwise. Return a value on every path."
            )
        return super().ret(value, did_return)


class _Transformer(PyToPy):
    """Rewrites functions; each is rewritten once."""

    _extra_locals: dict[str, Any] | None

    def get_extra_locals(self) -> dict[str, Any]:
        """Return what rewritten code finds under ``ag__``."""
        if self._extra_locals is None:
            from bellhop.autograph.calls import converted_call

            extra = super().get_extra_locals()
            extra["ag__"].__dict__.update(
                FunctionScope=_Scope,
                and_=branches.and_,
                assert_=assertions.assert_,
                converted_call=converted_call,
                for_stmt=loops.for_stmt,
                if_exp=branches.if_exp,
                if_stmt=branches.if_stmt,
                not_=branches.not_,
                or_=branches.or_,
                set_at=assignments.set_at,
                unchanged=assignments.unchanged,
                update_at=assignments.update_at,
                while_stmt=loops.while_stmt,
            )
            self._extra_locals = extra
        return self._extra_locals

    def transform_ast(self, node: Any, ctx: Any) -> Any:
        """Rewrite a function: assignments to elements too, but nothing else of lists.

        What AutoGraph makes of ``append`` takes a list of an enclosing function for a variable
        of this one.
        """
        unsupported_features_checker.verify(node)
        node = self.initial_analysis(node, ctx)
        for step in _STEPS:
            node = step.transform(node, ctx)
        return node

    def source(self, function: Callable[..., Any]) -> str | None:
        """Return what a function was rewritten to, or None where it was not."""
        if not self._cache.has(function, _OPTIONS):
            return None
        converted, *_ = self.transform_function(function, converter.ProgramContext(_OPTIONS))
        return inspect.getsource(converted)


_transformer = _Transformer()


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function, or method, rewritten."""
    if hasattr(function, "ag_unconverted"):
        return function
    bound = getattr(function, "__self__", None)
    plain = function.__func__ if inspect.ismethod(function) else function
    converted, _, lines = _transformer.transform_function(plain, converter.ProgramContext(_OPTIONS))
    register_generated(
        {
            (at.filename, at.lineno): (origin.loc.filename, origin.loc.lineno)
            for at, origin in lines.items()
        }
    )

    @functools.wraps(plain)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return converted(*args, **kwargs)
        except Exception as error:
            _note(error, plain)
            raise

    run.ag_unconverted = plain  # type: ignore[attr-defined]
    return run if bound is None else functools.partial(run, bound)


def _note(error: Exception, function: Callable[..., Any]) -> None:
    """Say where in the user's code it happened, which the traceback cannot: once an error."""
    if not getattr(error, "_bellhop_is_located", False):
        traceback, site = error.__traceback__, None
        while traceback is not None:
            at = generated_line(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            site = at or site
            traceback = traceback.tb_next
        if site is not None:
            error.add_note(
                f"raised in '{function_name(function)}', converted by autograph, at {site}"
            )
            error._bellhop_is_located = True  # type: ignore[attr-defined]


def run_autograph(fn: Any, *modules: str) -> Any:
    """Convert the Python control flow of a function, and of what it calls.

    ``if``, ``for`` and ``while`` on values that the program computes become the program's own,
    with ``break``, ``continue`` and early ``return``; so do conditional expressions, ``and``,
    ``or``, ``not``, ``assert`` and assignments to elements of arrays.  ``for`` over a range or an
    array is a loop of the program in any case.  What libraries define is not converted.

    Args:
        fn: a function, a method, or a QNode.
        modules: names of modules to convert although a library defines them.

    Returns:
        the converted function, or a QNode of it.

    Raises:
        AutoGraphError: where the source cannot be had or is not understood; names the function.

    Example:
        >>> import bellhop, jax
        >>> def f(x):
        ...     if x > 5:
        ...         return x**2
        ...     return x**3
        >>> jax.jit(bellhop.run_autograph(f))(2.0)
        Array(8., dtype=float64)

    The interface is that of Catalyst's ``run_autograph``.
    """
    from bellhop.autograph.calls import including, is_users, with_converted_function

    if not callable(fn):
        raise TypeError(f"run_autograph takes a function, got {fn!r} of type {type(fn).__name__}.")

    def converted(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            run = convert(function) if is_users(function) else _calling(function)
        except Exception as error:
            raise AutoGraphError(
                f"'{function_name(function)}' ({definition_site(function)}) cannot be converted "
                f"by autograph: {error}"
            ) from error
        return including(modules, run) if modules else run

    return with_converted_function(fn, converted)


def _calling(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls what is no function of the user's, such as a gradient."""
    if inspect.isfunction(fn) and fn.__code__.co_filename == "<string>":
        raise AutoGraphError("its source cannot be had")
    from bellhop.autograph.calls import call_converted

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        with converting():
            return call_converted(fn, args, kwargs)

    call.ag_unconverted = fn  # type: ignore[attr-defined]
    return call


def autograph_source(fn: Any) -> str:
    """Return the source that a function was converted to.

    Args:
        fn: the function, converted or not, a QNode or a qjit function.  One that a converted
            function calls is itself converted when it is first called.

    Raises:
        AutoGraphError: where it was not converted.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit(autograph=True)
        ... def f(x):
        ...     return -x if x < 0 else x
        >>> f(-2.0)
        Array(2., dtype=float64)
        >>> "if_exp" in bellhop.autograph_source(f)
        True
    """
    function = fn
    for attribute in ("user_function", "func", "ag_unconverted"):
        function = getattr(function, attribute, function)
    function = getattr(function, "func", function)
    function = getattr(function, "__func__", function)
    source = _transformer.source(function) if hasattr(function, "__code__") else None
    if source is None:
        raise AutoGraphError(
            f"{fn!r} was not converted by autograph. Compile it with qjit(autograph=True), and "
            "call it, or what calls it, once."
        )
    return source


def options_include() -> Sequence[str]:
    """Return the modules that the program being traced asks to convert."""
    options = current_options()
    return () if options is None else tuple(options.autograph_include)
