"""Cache of a compiled function's programs, one for each signature."""

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
    """A compiled program of a qjit function, with its signature.

    Attributes:
        program: the program and its compilation stages.
        signature: values of static arguments, and types of positional and keyword arguments, each a
            ``FlatTree``.
        out_tree: ``PyTreeDef`` of the function's result.
    """

    program: Program
    signature: tuple[Static, Any, Any]
    out_tree: Any

    def matches(self, static: Static, args: Args, kwargs: Kwargs) -> bool:
        """Return whether this program was compiled for these static arguments and types.

        Each argument is a flattened pytree (``FlatTree``) of values or types. Weak types must agree
        too.
        """
        leaves, tree = jax.tree.flatten((args, kwargs))
        known, known_tree = jax.tree.flatten(self.signature[1:])
        return (static, tree) == (self.signature[0], known_tree) and all(
            jax.typeof(leaf) == jax.core.ShapedArray(aval.shape, aval.dtype, aval.weak_type)
            for leaf, aval in zip(leaves, known, strict=True)
        )

    def replace_module(self, stage: str, text: str, table: CallbackTable) -> "CachedProgram":
        """Compile a copy of this program from other MLIR text for one of its stages.

        Only the passes after that stage run.

        Args:
            stage: name of the pass after which the module is replaced, or ``"lowered"``.
            text: MLIR text of the new module.
            table: receives the Python functions that the program calls.

        Raises:
            CompileError: if the module cannot be parsed or compiled.
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
            raise CompileError(
                f"the module that replaces the stage '{stage}' cannot be compiled: {error}"
            ) from error
        return replace(self, program=replaced)


class ProgramCache:
    """All compiled programs of one qjit function.

    Each `QJIT` creates one. A flag is set when the first program with the property is compiled,
    and never reset.

    Args:
        make: compiles the program of a new signature; takes static, positional and keyword
            arguments.
        table: callback table that all programs of the function share.

    Attributes:
        entries: the programs, in the order of compilation.
        call_runtime: whether a program has custom calls of the runtime. Then a call returns only
            when XLA has executed the program.
        may_wait: whether a program may wait for other programs, by callbacks or regions.
        print: whether a program prints.
        print_asynchronously: whether a program prints asynchronously, on another thread.
        show_progress: whether a program has loops with progress bars.
    """

    def __init__(
        self, make: Callable[[Static, Any, Any], CachedProgram], table: CallbackTable
    ) -> None:
        """Start without programs; `make` compiles the program of a new signature.

        `make` takes static, positional and keyword arguments. `table` is the callback table that
        all programs of the function share.
        """
        self.entries: list[CachedProgram] = []
        self.call_runtime = False
        self.may_wait = False
        self.print = False
        self.print_asynchronously = False
        self.show_progress = False
        self._make = make
        self._table = table
        # A program, the stage to replace, and the replacement's text.
        self._replacement: tuple[CachedProgram, str, str] | None = None

    def compile(self, static: Static, args: Args, kwargs: Kwargs) -> CachedProgram:
        """Compile the program of a signature, add it to this cache and update the flags.

        If `schedule_replacement` replaced a module of the program with this signature, the replaced
        module is compiled. An older program of the signature stays in `entries`.

        Args:
            static: the static arguments.
            args: positional arguments, each a flattened pytree (``FlatTree``).
            kwargs: keyword arguments, as `args`.
        """
        replaced = self._replacement
        if replaced is not None and replaced[0].matches(static, args, kwargs):
            former, stage, text = replaced
            cached = former.replace_module(stage, text, self._table)
        else:
            cached = self._make(static, args, kwargs)
        self.entries.append(cached)
        # Flags are only set, never reset, as other threads may be compiling.
        if cached.program.code.calls_runtime:
            self.call_runtime = True
        if cached.program.code.may_wait:
            self.may_wait = True
        if cached.program.prints:
            self.print = True
            # The current call began before the program was known to print.
            save_context()
        if cached.program.prints_later:
            self.print_asynchronously = True
        if cached.program.shows_progress:
            self.show_progress = True
        return cached

    def find(self, call: CallArgs) -> CachedProgram | None:
        """Return the newest program that matches the signature of a call, or None."""
        flat = call.flattened
        matching = (
            cached
            for cached in reversed(self.entries)
            if cached.matches(flat.static, flat.args, flat.kwargs)
        )
        return next(matching, None)

    def schedule_replacement(self, stage: str, text: str) -> None:
        """Replace a module of the newest program at its next compilation (`compile`).

        Args:
            stage: name of the pass after which the module is replaced, or ``"lowered"``.
            text: MLIR text of the new module.
        """
        self._replacement = self.entries[-1], stage, text
