"""Attributes of a compiled function that show its programs."""

from typing import TYPE_CHECKING, Any

import jax

from bellhop.base.ir_display import parse
from bellhop.base.public_function import public_function
from bellhop.compiled.program_cache import CachedProgram, ProgramCache
from bellhop.compiler.program import Program
from bellhop.errors import NotCompiledError
from bellhop.execution.call_args import CallArgs
from bellhop.execution.runner import Runner
from bellhop.tracing.catalyst_compat import missing_attribute_error


class Inspectable:
    """Properties of a `QJIT` object that show the stages of its newest program.

    The newest program is the program that was compiled last.
    """

    _programs: ProgramCache
    _runner: Runner

    @property
    def jaxpr(self) -> Any:
        """Closed jaxpr of the newest program; None for a program from a file."""
        return self._program().jaxpr

    @property
    def mlir(self) -> str:
        """MLIR text of the newest program before the passes, with Bellhop's dialects."""
        return self._program().mlir

    @property
    def mlir_module(self) -> Any:
        """The newest program, before the passes, as a module of the MLIR Python bindings."""
        return parse(self._program().mlir)

    @property
    def mlir_opt(self) -> str:
        """MLIR text of the newest program after the optimising passes."""
        return self._program().mlir_opt

    @property
    def compiled_function(self) -> jax.stages.Compiled | None:
        """JAX's executable of the newest program; None if nothing is compiled.

        A program that was only traced is compiled now.
        """
        if not self._programs.entries:
            return None
        call = CallArgs.from_caller(*self._newest_entry().signature)
        compiled: jax.stages.Compiled = self._runner.compile(call)
        return compiled

    @property
    def out_treedef(self) -> Any:
        """``PyTreeDef`` of the newest program's result."""
        return self._newest_entry().out_tree

    if not TYPE_CHECKING:

        @public_function
        def __getattr__(self, name: str) -> Any:
            # Python comes here too if a property has raised an AttributeError.
            """Raise the error for an attribute that does not exist, or has no value yet.

            Python calls it if the usual look-up of the attribute fails.

            Raises:
                NotCompiledError: for a property such as ``mlir``, if nothing is compiled.
                AttributeError: for all other names, with advice on attributes of Catalyst.
            """
            is_property = isinstance(getattr(type(self), name, None), property)
            if is_property and "_programs" in self.__dict__:
                self._newest_entry()
            raise missing_attribute_error(self, name)

    def _program(self) -> Program:
        """Return the program that was compiled last."""
        return self._newest_entry().program

    def _newest_entry(self) -> CachedProgram:
        """Return the program that was compiled last, with its signature.

        Raises:
            NotCompiledError: if nothing is compiled.
        """
        if not self._programs.entries:
            raise NotCompiledError(
                f"{self!r} has not been compiled: call it first, since its program depends on "
                "the shapes and dtypes of the arguments."
            )
        return self._programs.entries[-1]
