"""Bellhop's own functions in files: only names in a fixed table are imported."""

from collections.abc import Sequence
from typing import Any

from bellhop.archive.escaping import escape_controls
from bellhop.archive.format_strings import format_limited, verify_format, verify_print_options
from bellhop.archive.importing import import_by_name
from bellhop.archive.schema import Malformed
from bellhop.compiler.builtin_function import BuiltinFunction

#: Names of all subclasses of ``BuiltinFunction`` that programs call. Importing their modules has no
#: side effects.
OWN_FUNCTIONS = frozenset(
    {
        "bellhop.circuits.backends.stim.sampler:StimSampler",
        "bellhop.circuits.ir.runtime_checks:DrawCheck",
        "bellhop.circuits.ir.runtime_checks:FaultCheck",
        "bellhop.circuits.ir.runtime_checks:MeanCheck",
        "bellhop.observers.assertion:_Assertion",
        "bellhop.observers.assertion:_Statement",
        "bellhop.observers.cotangent:_NanCheck",
        "bellhop.observers.log:LevelCheck",
        "bellhop.observers.log:LogCounter",
        "bellhop.observers.log:LogRecorder",
        "bellhop.observers.print:_Formatter",
        "bellhop.observers.print:_MemrefPrinter",
        "bellhop.progress_bars.bars:LoopLabel",
    }
)


def make_own_function(
    name: str, arguments: tuple[str, ...] | None, *, trust: bool
) -> BuiltinFunction:
    """Create one of Bellhop's own functions from its data in a file.

    Args:
        name: ``module:qualname`` of its class in the file.
        arguments: strings for the class's constructor.
        trust: whether format strings are unrestricted.

    Raises:
        Malformed: if Bellhop does not have the class, the class rejects the strings, or a
            format string without trust can do more than display values.
    """
    if name not in OWN_FUNCTIONS:
        raise Malformed(f"the file calls a function '{name}' that bellhop does not have")
    if arguments is None:
        raise Malformed(
            f"the file calls the function '{name}' without arguments, expected a list of strings"
        )
    try:
        class_: Any = import_by_name(name)
    except (ImportError, AttributeError) as error:
        raise Malformed(
            f"the file calls a function '{name}' that this installation of bellhop does not have"
        ) from error
    try:
        if not trust:
            verify_strings(class_, arguments)
            if not class_.is_formatter:
                # Errors show these texts.
                arguments = tuple(map(escape_controls, arguments))
        function: BuiltinFunction = class_(*arguments)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Malformed(
            f"the file has a function '{name}' with invalid arguments: {error}"
        ) from error
    if class_.is_formatter and not trust:
        function.format_text = format_limited
    return function


def verify_strings(class_: type[BuiltinFunction], arguments: Sequence[str]) -> None:
    """Raise an error if a function of Bellhop could do harm with a file's strings.

    Only functions that format values can; for all other functions nothing is checked.

    Args:
        class_: class of the function.
        arguments: strings for the class's constructor, such as a format string.

    Raises:
        ValueError: for a format string that can do more than display values, or print options that
            are not valid.
        TypeError, LookupError: for print options that NumPy rejects, and for a missing format
            string.
    """
    if class_.is_formatter:
        verify_format(arguments[0])
        if class_.has_print_options:
            verify_print_options(*arguments[1:])
