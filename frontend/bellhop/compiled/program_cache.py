"""The programs of a compiled function: one for each signature, made as it is called."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.interpreters.mlir import ir

from bellhop.arguments.static_arguments import Static
from bellhop.base.ir_display import parse
from bellhop.base.types import Args, Kwargs
from bellhop.compiler.optimize import optimize
from bellhop.compiler.program import Program
from bellhop.concurrency.caller_context import save_context
from bellhop.errors import CompileError
from bellhop.execution.call_args import CallArgs
from bellhop_mlir.errors import PassError
from bellhop_runtime import CallbackTable


@dataclass(frozen=True)
class CachedProgram:
    """A program and what it was made for.

    Attributes:
        program: it.
        signature: static arguments, and types of the others by position and by name, each a
            ``FlatTree``.
        out_tree: the structure of the result.
    """

    program: Program
    signature: tuple[Static, Any, Any]
    out_tree: Any

    def matches(self, static: Static, args: Args, kwargs: Kwargs) -> bool:
        """Tell whether it was made for arguments like these."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        known, known_tree = jax.tree.flatten(self.signature[1:])
        return (static, tree) == (self.signature[0], known_tree) and all(
            jax.typeof(leaf) == jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type)
            for leaf, aval in zip(leaves, known, strict=True)
        )

    def replace_module(self, stage: str, text: str, table: CallbackTable) -> "CachedProgram":
        """Return the program that comes of another module in place of that of a stage.

        Raises:
            CompileError: where that module cannot be parsed or compiled.
        """
        program = self.program
        try:
            replaced = optimize(
                parse(text),
                program.targets,
                table,
                jaxpr=program.jaxpr,
                out_avals=program.code.out_avals,
                out_targets=program.code.targets,
                keep_stages=bool(program.stages),
                concurrent=program.concurrent,
                after=stage,
            )
        except (PassError, ir.MLIRError) as error:
            raise CompileError(f"the module in place of '{stage}': {error}") from error
        return replace(self, program=replaced)


class ProgramCache:
    """The programs of one function.

    Attributes:
        entries: all of them, in the order in which they were made.
        call_runtime: whether one calls the runtime, and what it does there must be waited for.
        may_wait: whether what one calls may wait for other programs.
        print: whether one prints.
        print_later: whether one prints after it has returned.
        show_progress: whether one has loops with bars.
    """

    def __init__(
        self, make: Callable[[Static, Any, Any], CachedProgram], table: CallbackTable
    ) -> None:
        """Begin without any.

        Args:
            make: makes the program of a new signature.
            table: that of all of them.
        """
        self.entries: list[CachedProgram] = []
        self.call_runtime = False
        self.may_wait = False
        self.print = False
        self.print_later = False
        self.show_progress = False
        self._make = make
        self._table = table
        # A program, the stage whose module is replaced, and the text of the other one.
        self._replacement: tuple[CachedProgram, str, str] | None = None

    def compile(self, static: Static, args: Args, kwargs: Kwargs) -> CachedProgram:
        """Make the program of a signature, and keep it."""
        replaced = self._replacement
        if replaced is not None and replaced[0].matches(static, args, kwargs):
            former, stage, text = replaced
            made = former.replace_module(stage, text, self._table)
        else:
            made = self._make(static, args, kwargs)
        self.entries.append(made)
        # Set, and never taken back: another thread may be making another one.
        if made.program.code.calls_runtime:
            self.call_runtime = True
        if made.program.code.may_wait:
            self.may_wait = True
        if made.program.prints:
            self.print = True
            # It is for a call that began without them.
            save_context()
        if made.program.prints_later:
            self.print_later = True
        if made.program.shows_progress:
            self.show_progress = True
        return made

    def find(self, call: CallArgs) -> CachedProgram | None:
        """Return the program of a call: the newest, as one may have been compiled again."""
        flat = call.flattened
        found = (
            made
            for made in reversed(self.entries)
            if made.matches(flat.static, flat.args, flat.kwargs)
        )
        return next(found, None)

    def replace_newest(self, stage: str, text: str) -> None:
        """Make the newest program from another module when it is compiled again."""
        self._replacement = self.entries[-1], stage, text
