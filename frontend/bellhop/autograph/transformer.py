"""Conversion of functions: rewrite control flow and calls to calls of Bellhop.

diastatic-malt, the successor of TensorFlow's AutoGraph, rewrites the source; the rewritten code
calls functions of ``bellhop.autograph``.
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
from malt.pyct.errors import InaccessibleSourceCodeError

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
from bellhop.base.exception_attributes import add_note, set_exception_attribute
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

# The order matters: each step produces input for the next.
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
    """AutoGraph's scope of a converted function's body, with a check of the function's result.

    Rewritten code enters it at each call of the function.
    """

    def ret(self, value: object, did_return: Any) -> Any:
        """Check and return the result of a converted function; rewritten code calls this last.

        Args:
            value: the result, or AutoGraph's marker if the function did not return.
            did_return: whether a ``return`` was executed; may be traced.

        Returns:
            `value`; None for AutoGraph's marker.

        Raises:
            AutoGraphError: if `did_return` is traced and `value` is a result: some path through the
                function then returns no value.
        """
        if is_traced(did_return) and not is_undefined(value):
            raise AutoGraphError(
                f"the function at {user_site()} returns a value only under a traced "
                "condition. Return a value on every path."
            )
        return super().ret(value, did_return)


class Transformer(PyToPy):
    """Converter of Python functions, which rewrites the source of each function once.

    There is one, `converted_calls.transformer`.

    Args:
        converted_call: function by which rewritten code calls other functions.
    """

    _extra_locals: dict[str, Any] | None

    def __init__(self, converted_call: Callable[..., Any]) -> None:
        super().__init__()
        self._converted_call = converted_call

    def get_extra_locals(self) -> dict[str, Any]:
        """Return the namespace of rewritten code: ``{"ag__": module of AutoGraph}``.

        Bellhop's functions replace AutoGraph's in it, such as ``ag__.if_stmt``.
        """
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
                set_element=assignments.set_element,
                check_same_object=assignments.check_same_object,
                update_element=assignments.update_element,
                while_stmt=loops.while_stmt,
            )
            self._extra_locals = extra
        return self._extra_locals

    def transform_ast(self, node: Any, ctx: Any) -> Any:
        """Rewrite the syntax tree of a function: all steps of the conversion, in order.

        AutoGraph's step for lists is left out: it would turn a list of an enclosing function into a
        local variable. The tree `node` is changed, and returned. The first use patches malt.

        Raises:
            AutoGraphError: for a statement that cannot be converted.
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
        """Return the generated source of a function; None if it was not converted."""
        if not self._cache.has(function, _OPTIONS):
            return None
        converted, *_ = self.transform_function(function, converter.ProgramContext(_OPTIONS))
        return inspect.getsource(converted)

    def convert(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Convert a Python function or method, so that its control flow can be compiled.

        Args:
            function: a user's function or method; a converted function is returned as it is.

        Returns:
            a function with the same arguments and result. Exceptions that it raises get a note with
            the user's line.
        """
        if hasattr(function, "ag_unconverted"):
            return function
        bound = getattr(function, "__self__", None)
        plain = function.__func__ if inspect.ismethod(function) else function
        try:
            converted, module, lines = self.transform_function(
                plain, converter.ProgramContext(_OPTIONS)
            )
        except InaccessibleSourceCodeError as error:
            # malt's message gives advice for TensorFlow.
            raise AutoGraphError(
                "the source of the function is not available. Define the function in a file."
            ) from error
        # All trees share one `Load` node, on which malt may have recorded another function's line;
        # filter by file.
        register_generated_file(
            module.__file__,
            {
                generated.lineno: (origin.loc.filename, origin.loc.lineno)
                for generated, origin in lines.items()
                if generated.filename == module.__file__
            },
        )

        @functools.wraps(plain)
        def run(*args: Any, **kwargs: Any) -> Any:
            """Run the converted function; add the user's line to exceptions as a note."""
            try:
                return converted(*args, **kwargs)
            except Exception as error:
                _add_location(error, plain)
                raise

        run.ag_unconverted = plain  # type: ignore[attr-defined]
        return run if bound is None else functools.partial(run, bound)


def _add_location(error: Exception, function: Callable[..., Any]) -> None:
    """Add a note with the user's line to an exception from converted code.

    The note names the user's `function`. An exception that has such a note already is not changed.
    """
    if not getattr(error, "_bellhop_is_located", False):
        traceback, site = error.__traceback__, None
        while traceback is not None:
            at = original_location(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
            site = at or site
            traceback = traceback.tb_next
        if site is not None:
            add_note(
                error, f"raised in '{function_name(function)}', converted by autograph, at {site}"
            )
            set_exception_attribute(error, "_bellhop_is_located", True)
