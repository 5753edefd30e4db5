"""What a compiled function shows of its programs."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
from jax.interpreters.mlir import ir

from bellhop.devices import device_name
from bellhop.errors import CompileError
from bellhop.foreign import missing_attribute
from bellhop.lowering import Program, host_device, optimize
from bellhop.runner import Runner
from bellhop.signature import Static
from bellhop_mlir.errors import PassError
from bellhop_runtime import CallbackTable


@dataclass(frozen=True)
class Made:
    """A program and what it was made for.

    Attributes:
        program: it.
        signature: static arguments, and types of the others by position and by name.
        out_tree: the structure of the result.
    """

    program: Program
    signature: tuple[Static, Any, Any]
    out_tree: Any


@dataclass(frozen=True)
class Replacement:
    """A module in place of one of a program's.

    Attributes:
        made: the program.
        stage: which of its modules.
        text: the other one.
    """

    made: Made
    stage: str
    text: str

    def make(self, table: CallbackTable) -> Made:
        """Make the program that comes of it.

        Raises:
            CompileError: where that module cannot be parsed or compiled.
        """
        from bellhop.aot.archive import parse

        program = self.made.program
        try:
            replaced = optimize(
                parse(self.text),
                device_name(host_device()),
                program.targets,
                table,
                jaxpr=program.jaxpr,
                out_avals=program.code.out_avals,
                keep_stages=bool(program.stages),
                after=self.stage,
            )
        except (PassError, ir.MLIRError) as error:
            raise CompileError(f"the module in place of '{self.stage}': {error}") from error
        return replace(self.made, program=replaced)


class Inspectable:
    """The stages of the newest program of a function."""

    _made: list[Made]
    _runner: Runner

    @property
    def jaxpr(self) -> Any:
        """The traced function of the newest program."""
        return self._program().jaxpr

    @property
    def mlir(self) -> str:
        """The newest program in the callback and quantum dialects."""
        return self._program().mlir

    @property
    def mlir_module(self) -> Any:
        """The newest program as a module of MLIR."""
        from bellhop.aot.archive import parse

        return parse(self._program().mlir)

    @property
    def mlir_opt(self) -> str:
        """The newest program after the optimising passes."""
        return self._program().mlir_opt

    @property
    def compiled_function(self) -> jax.stages.Compiled | None:
        """JAX's executable of the newest program; None where nothing is compiled yet."""
        if not self._made:
            return None
        compiled: jax.stages.Compiled = self._runner.lower(*self._made[-1].signature).compile()
        return compiled

    @property
    def out_treedef(self) -> Any:
        """The structure of the newest program's result."""
        self._program()
        return self._made[-1].out_tree

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def _program(self) -> Program:
        if not self._made:
            raise CompileError(
                f"{self!r} has not been compiled: call it first, since its program depends on "
                "the shapes and dtypes of the arguments."
            )
        return self._made[-1].program
