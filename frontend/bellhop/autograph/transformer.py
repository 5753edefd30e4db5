"""Converting functions: control flow becomes calls of ours, calls convert what they call.

The source is rewritten by diastatic-malt, the library that AutoGraph of TensorFlow lives on in;
what the rewritten code calls is ``bellhop.autograph``.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from malt.converters import (
    break_statements,
    call_trees,
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

from bellhop.autograph import (
    assertions,
    assignment_expressions,
    assignments,
    conditional_expressions,
    if_statements,
    loops,
    match_statements,
)
from bellhop.autograph.inner_arguments import keep_arguments_inside
from bellhop.autograph.variables import is_traced, is_undefined
from bellhop.base.source import (
    function_name,
    original_location,
    register_generated_file,
    user_site,
)
from bellhop.errors import AutoGraphError

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

    def ret(self, value: object, did_return: Any) -> Any:
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


class Transformer(PyToPy):
    """Rewrites functions; each is rewritten once.

    Args:
        converted_call: calls a function from rewritten code.
    """

    _extra_locals: dict[str, Any] | None

    def __init__(self, converted_call: Callable[..., Any]) -> None:
        super().__init__()
        self._converted_call = converted_call

    def get_extra_locals(self) -> dict[str, Any]:
        """Return what rewritten code finds under ``ag__``."""
        if self._extra_locals is None:
            extra = super().get_extra_locals()
            extra["ag__"].__dict__.update(
                FunctionScope=_Scope,
                and_=if_statements.and_,
                assert_=assertions.assert_,
                converted_call=self._converted_call,
                for_stmt=loops.for_stmt,
                if_exp=if_statements.if_exp,
                if_stmt=if_statements.if_stmt,
                not_=if_statements.not_,
                or_=if_statements.or_,
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
        keep_arguments_inside()
        unsupported_features_checker.verify(node)
        node = match_statements.transform(node)
        node = assignment_expressions.transform(node)
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

    def convert(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a Python function, or method, rewritten."""
        if hasattr(function, "ag_unconverted"):
            return function
        bound = getattr(function, "__self__", None)
        plain = function.__func__ if inspect.ismethod(function) else function
        converted, module, lines = self.transform_function(
            plain, converter.ProgramContext(_OPTIONS)
        )
        # Python has one `Load` for all trees, on which malt leaves the line of another function.
        register_generated_file(
            module.__file__,
            {
                at.lineno: (origin.loc.filename, origin.loc.lineno)
                for at, origin in lines.items()
                if at.filename == module.__file__
            },
        )

        @functools.wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return converted(*args, **kwargs)
            except Exception as error:
                _add_location(error, plain)
                raise

        run.ag_unconverted = plain  # type: ignore[attr-defined]
        return run if bound is None else functools.partial(run, bound)


def _add_location(error: Exception, function: Callable[..., Any]) -> None:
    """Say where in the user's code it happened, which the traceback cannot: once an error."""
    if not getattr(error, "_bellhop_is_located", False):
        traceback, site = error.__traceback__, None
        while traceback is not None:
            at = original_location(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            site = at or site
            traceback = traceback.tb_next
        if site is not None:
            error.add_note(
                f"raised in '{function_name(function)}', converted by autograph, at {site}"
            )
            error._bellhop_is_located = True  # type: ignore[attr-defined]
