"""bellhop-opt: run passes on an MLIR file and print the result."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence
from typing import TextIO

from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir.dialects.printing import print_module as printed
from bellhop_mlir.parser_limits import verify_text
from bellhop_mlir.passes import Pass
from bellhop_mlir.pipelines import PASSES, PIPELINE, run_pipeline

_PASS = re.compile(r"(?P<name>[\w-]+)(\{(?P<options>[^}]*)\})?$")


def parse_pass(text: str) -> Pass:
    """Create a pass from its text on the command line.

    The text is ``name`` or ``name{option=value ...}``, with spaces between the options:

    ``parse_pass("outline-scalars{size=2}")`` is ``OutlineScalars(size=2)``.

    Raises:
        ValueError: for a text of another form, for an unknown pass or option (the message lists the
            known passes or options), or for an option's value of another type.
    """
    match = _PASS.match(text)
    if match is None:
        raise ValueError(f"'{text}' does not name a pass as NAME or NAME{{option=value ...}}")
    if match["name"] not in PASSES:
        raise ValueError(f"no pass is named '{match['name']}'; there are {', '.join(PASSES)}")
    cls = PASSES[match["name"]]
    types = {field.name: field.type for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    options: dict[str, int | str] = {}
    for item in (match["options"] or "").split():
        key, equals, value = item.partition("=")
        if key not in types:
            raise ValueError(
                f"the pass {cls.name} has no option '{key}'; "
                f"there are: {', '.join(types) or 'none'}"
            )
        if not equals or (types[key] is int and not value.isdecimal()):
            wanted = "a number" if types[key] is int else "text"
            raise ValueError(
                f"the pass {cls.name} got the option '{item}', expected {key}={wanted}"
            )
        options[key] = int(value) if types[key] is int else value
    return cls(**options)


def run_passes(text: str, passes: Sequence[Pass]) -> str:
    """Run passes on the text of a module; return the text of the changed module.

    Args:
        text: the module in MLIR's syntax.
        passes: the passes, in order; if empty, the module is only verified.

    Raises:
        VerificationError: if the text exceeds the limits of `verify_text`, or if the module breaks
            a rule of Bellhop's dialects, before or after a pass.
        PassError: from a pass that does not support the module.
        MLIRError: if the text cannot be parsed, or if MLIR's own verifier rejects it.
    """
    verify_text(text)
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, passes)
        return printed(module)


def run_tool(
    arguments: Sequence[str], standard_input: TextIO, output: TextIO, diagnostics: TextIO
) -> int:
    """Run ``bellhop-opt`` with given streams instead of the process's.

    The tool reads a module, runs passes on it and writes the changed module. Errors in the module,
    the file or the pass names are written to ``diagnostics``, one line for each error or note.

    Args:
        arguments: command line arguments, without the program's name.
        standard_input: stream that is read for the file name ``-``, the default.
        output: stream for the module, or for the list of passes with ``--list``.
        diagnostics: stream for errors.

    Returns:
        the exit status: 0, or 1 after an error.

    Raises:
        SystemExit: for invalid command line arguments, from ``argparse``.
    """
    options = _make_parser().parse_args(arguments)
    if options.list:
        for name, cls in PASSES.items():
            print(f"{name:32} {(cls.__doc__ or '').splitlines()[0]}", file=output)
        return 0
    try:
        if options.file == "-":
            text = standard_input.read()
        else:
            with open(options.file, encoding="utf-8") as file:
                text = file.read()
        print(run_passes(text, _parse_passes(options)), file=output)
    except (ValueError, OSError, ir.MLIRError) as error:
        for line in (error, *getattr(error, "__notes__", ())):
            print(f"bellhop-opt: {line}", file=diagnostics)
        return 1
    return 0


def _parse_passes(options: argparse.Namespace) -> list[Pass]:
    """Create the passes that the command line selects.

    They are the passes of the ``--pass`` arguments, in their order; none with ``--verify-only``. By
    default, they are one pass of each class in ``PIPELINE``, with default options.

    Raises:
        ValueError: for a ``--pass`` argument that `parse_pass` rejects.
    """
    if options.verify_only:
        return []
    if options.passes:
        return [parse_pass(text) for text in options.passes]
    return [cls() for cls in PIPELINE]


def _make_parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments of ``bellhop-opt``."""
    parser = argparse.ArgumentParser(
        prog="bellhop-opt", description="Run bellhop's passes over a file of MLIR."
    )
    parser.add_argument("file", nargs="?", default="-", help="the file; - is standard input")
    parser.add_argument(
        "--pass",
        dest="passes",
        action="append",
        metavar="NAME",
        help="a pass, as NAME or NAME{option=value ...}; may be given several times, and "
        "without any the whole pipeline runs",
    )
    parser.add_argument("--verify-only", action="store_true", help="run no pass, only check")
    parser.add_argument("--list", action="store_true", help="list the passes")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``bellhop-opt`` on the process's streams; return its exit status.

    Args:
        arguments: command line arguments; None for the process's arguments.
    """
    return run_tool(
        sys.argv[1:] if arguments is None else arguments, sys.stdin, sys.stdout, sys.stderr
    )


if __name__ == "__main__":
    raise SystemExit(main())
