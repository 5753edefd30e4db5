"""Reasons why ``load`` needs trust for a program."""

from collections.abc import Iterable, Sequence

from bellhop.archive.format_strings import verify_format
from bellhop.compiler.builtin_function import BuiltinFunction
from bellhop.compiler.callback_target import CallbackTarget
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted


def find_trust_reason(programs: Iterable[tuple[str, Sequence[CallbackTarget]]]) -> str | None:
    """Return why ``load`` needs ``trust=True`` for programs, or None.

    Args:
        programs: module text and callbacks of each program.
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
