"""The ``jax.jit`` of a function, by the code generator of XLA's that its programs need.

The generator is an option of a ``jax.jit``, and which one a program needs is known once it is made,
which is while that ``jax.jit`` traces it.  So the first program that repeats its kernels is handed
to another ``jax.jit``, which is the function's from then on.
"""

import threading
from collections.abc import Callable
from typing import Any

from bellhop.base.code_generation import COMPILER_OPTIONS, HAS_BOTH
from bellhop.run.embedding import Compile

MakeJit = Callable[[Compile, dict[str, bool] | None], Any]


class OtherGenerator(Exception):
    """A program is made, and not compiled: it is to be traced for the other ``jax.jit``."""


class GeneratorChoice:
    """A ``jax.jit`` that gives way to another one.

    Attributes:
        jit: what new calls go to.
    """

    def __init__(self, make_jit: MakeJit, compile_: Compile) -> None:
        """Begin with the generator of most programs.

        Args:
            make_jit: makes a ``jax.jit`` of what compiles, and of options.
            compile_: makes the program of a new signature.
        """
        self._make_jit = make_jit
        self._compile = compile_
        self._is_changed = False
        # Programs on their way to the other jit, by the thread that brings them.
        self._made: dict[int, Any] = {}
        self.jit = make_jit(self._compile_once, COMPILER_OPTIONS[False])

    def use(self, jit_use: Callable[[Any], Any]) -> Any:
        """Return what comes of a use of the ``jax.jit``, or of the other one where that is wanted.

        It may go on where the program was handed over by another use, in the same thread.
        """
        try:
            try:
                return jit_use(self.jit)
            except OtherGenerator:
                pass
            return jit_use(self.jit)
        finally:
            self._made.pop(threading.get_ident(), None)

    def _compile_once(self, *arguments: Any) -> Any:
        made = self._compile(*arguments)
        if made[0].repeats_kernels and HAS_BOTH:
            self._made[threading.get_ident()] = made
            # Another thread may have changed it.
            if not self._is_changed:
                self._is_changed = True
                self.jit = self._make_jit(self._compile_or_take, COMPILER_OPTIONS[True])
            raise OtherGenerator
        return made

    def _compile_or_take(self, *arguments: Any) -> Any:
        return self._made.pop(threading.get_ident(), None) or self._compile(*arguments)
