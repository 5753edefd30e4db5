"""Reasons why ``load`` needs trust for a program."""

from collections.abc import Iterable, Sequence

from bellhop.archive.format_strings import verify_format
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted


def find_trust_reason(programs: Iterable[tuple[str, Sequence[CallbackTarget]]]) -> str | None:
    """Find out why ``load`` needs ``trust=True`` for the programs of a file.

    Args:
        programs: for each program, the MLIR text of its module, and its callbacks.

    Returns:
        text that names the unsupported operation or format string; None if the programs can be
        loaded without trust, provided that the functions that they name are passed to ``load``.
    """
    for text, targets in programs:
        try:
            parse_untrusted(text)
            for target in targets:
                function = target.function
                if isinstance(function, BuiltinFunction) and function.is_formatter:
                    verify_format(function.arguments[0])
        except (VerificationError, ValueError) as error:
            return str(error)
    return None
