"""What a compiled function shows of its programs."""

from typing import TYPE_CHECKING, Any

import jax

from bellhop.base.module_text import parse
from bellhop.compiled.programs import Made, Programs
from bellhop.compiler.code import Program
from bellhop.errors import CompileError
from bellhop.run.given_call import GivenCall
from bellhop.run.runner import Runner
from bellhop.tracing.foreign import missing_attribute


class Inspectable:
    """The stages of the newest program of a function."""

    _programs: Programs
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
        return parse(self._program().mlir)

    @property
    def mlir_opt(self) -> str:
        """The newest program after the optimising passes."""
        return self._program().mlir_opt

    @property
    def compiled_function(self) -> jax.stages.Compiled | None:
        """JAX's executable of the newest program; None where nothing is compiled yet."""
        if not self._programs.made:
            return None
        call = GivenCall.of(*self._newest().signature)
        compiled: jax.stages.Compiled = self._runner.compile(call)
        return compiled

    @property
    def out_treedef(self) -> Any:
        """The structure of the newest program's result."""
        return self._newest().out_tree

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def _program(self) -> Program:
        return self._newest().program

    def _newest(self) -> Made:
        if not self._programs.made:
            raise CompileError(
                f"{self!r} has not been compiled: call it first, since its program depends on "
                "the shapes and dtypes of the arguments."
            )
        return self._programs.made[-1]
