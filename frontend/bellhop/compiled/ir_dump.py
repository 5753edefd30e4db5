"""Directory with the compilation stages of a program."""

import itertools
from pathlib import Path

from bellhop.compiler.optimize import LOWERED
from bellhop.compiler.program import Program
from bellhop_mlir.pipelines import CONVERSION, OPTIMIZATION

_MILESTONES = (LOWERED, OPTIMIZATION[-1].name, CONVERSION[-1].name)


def make_workspace(name: str) -> Path:
    """Create a directory for the stages of a function's program; return its path.

    It is in the current directory, with the function's name, in which characters other than
    letters, digits, ``_`` and ``-`` become ``_``. A number is appended if the name is taken:
    ``f``, ``f_1``, ``f_2``.
    """
    stem = "".join(c if c.isalnum() or c in "_-" else "_" for c in name)
    for number in itertools.count():
        path = Path.cwd() / (f"{stem}_{number}" if number else stem)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("itertools.count does not end")


def write_stages(workspace: Path, level: int, program: Program) -> None:
    """Write a program's jaxpr and MLIR stages to files, for ``keep_intermediate``.

    The files are ``traced.jaxpr`` and, for instance, ``00_lowered.mlir``.

    Args:
        workspace: the directory.
        level: ``CompileOptions.intermediate_level``. 1 writes the module as lowered, as optimised
            and as passed to XLA; 2 after each pass that changed it; 3 after each pass.
        program: the program, compiled with ``keep_stages``.
    """
    (workspace / "traced.jaxpr").write_text(str(program.jaxpr))
    before = None
    for number, (stage, text) in enumerate(program.stages.items()):
        if level == 1 and stage not in _MILESTONES:
            continue
        if level != 2 or text != before:
            (workspace / f"{number:02}_{stage}.mlir").write_text(text)
        before = text
