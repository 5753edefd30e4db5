"""bellhop-opt: run passes over a file of MLIR, and print the result."""

import argparse
import dataclasses
import re
import sys
from collections.abc import Sequence

from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir.pipelines import PASSES, PIPELINE, run_pipeline
from bellhop_mlir.transforms import Pass

_PASS = re.compile(r"(?P<name>[\w-]+)(\{(?P<options>[^}]*)\})?$")


def parse_pass(text: str) -> Pass:
    """Make a pass from ``name`` or ``name{option=value ...}``.

    Raises:
        ValueError: naming the passes, or the options, that there are.
    """
    match = _PASS.match(text)
    if match is None or match["name"] not in PASSES:
        raise ValueError(f"no pass is called '{text}'; there are {', '.join(PASSES)}")
    cls = PASSES[match["name"]]
    types = {field.name: field.type for field in dataclasses.fields(cls)}
    options: dict[str, int | str] = {}
    for item in (match["options"] or "").split():
        key, _, value = item.partition("=")
        if key not in types:
            raise ValueError(
                f"the pass {cls.name} has no option '{key}'; "  # type: ignore[attr-defined]
                f"there are: {', '.join(types) or 'none'}"
            )
        options[key] = int(value) if types[key] in (int, "int") else value
    return cls(**options)


def optimize(text: str, passes: Sequence[Pass]) -> str:
    """Return a module's text after ``passes``."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        run_pipeline(module, passes)
        return str(module)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return its exit status."""
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
    parser.add_argument("--list", action="store_true", help="list the passes")
    options = parser.parse_args(arguments)
    if options.list:
        for name, cls in PASSES.items():
            print(f"{name:32} {(cls.__doc__ or '').splitlines()[0]}")
        return 0
    try:
        passes = (
            [parse_pass(text) for text in options.passes]
            if options.passes
            else [cls() for cls in PIPELINE]
        )
        if options.file == "-":
            text = sys.stdin.read()
        else:
            with open(options.file, encoding="utf-8") as file:
                text = file.read()
        print(optimize(text, passes))
    except (ValueError, OSError, ir.MLIRError) as error:
        print(f"bellhop-opt: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):
            print(f"bellhop-opt: {note}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
