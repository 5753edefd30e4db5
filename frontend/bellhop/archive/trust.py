"""Reasons why ``load`` needs trust for a program."""

from collections.abc import Iterable, Sequence

from bellhop.archive.own_functions import verify_strings
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted


def find_trust_reason(programs: Iterable[tuple[str, Sequence[CallbackTarget]]]) -> str | None:
    """Find the first reason why ``load`` needs ``trust=True`` for a file's programs.

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
                if isinstance(function, BuiltinFunction):
                    verify_strings(type(function), function.arguments)
        except (VerificationError, ValueError) as error:
            return str(error)
    return None
