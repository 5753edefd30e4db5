"""How the program of a qjit function gets to run: by JAX's fast calls, or around them."""

from collections.abc import Callable
from typing import Any

import jax

from bellhop._jax_compat import run_compiled, without_mesh
from bellhop.crowding import moved, moved_back, spare_device
from bellhop.embedding import Compile, embedding_jit, first_input
from bellhop.first_runs import FirstRuns, signature_of
from bellhop.lowering import host_device, table_handle
from bellhop.signature import NO_STATIC, Static
from bellhop_runtime import CallbackTable


class Runner:
    """The ``jax.jit`` of a qjit function, and the ways around its fast calls.

    Attributes:
        first_runs: those of the function that are under way.
        jit: takes the handle of the table and the arguments.
        handle: of the table, committed to the CPU: the program itself runs there, whatever
            JAX's default is.
    """

    def __init__(
        self,
        name: str,
        table: CallbackTable,
        compile_: Compile,
        run_uncompiled: Callable[[Static, Any, Any], Any],
        refuse: Callable[[Any, Any], None],
    ) -> None:
        """Make the ``jax.jit``.

        Args:
            name: what the function is called.
            table: that of its programs.
            compile_: makes the program of a new signature.
            run_uncompiled: runs the function itself.
            refuse: raises what is wrong with arguments that JAX refused, if it knows.
        """
        self.first_runs = FirstRuns()
        self.jit = embedding_jit(compile_, run_uncompiled, self.first_runs, name)
        self.handle = jax.device_put(table_handle(table), host_device())
        self._refuse = refuse
        # Whether there ever was an argument, or a mesh, of other devices.
        self._gathers = False

    def run(self, static: Static, args: Any, kwargs: Any) -> Any:
        """Run by a fast call where that is possible."""
        run: Callable[[Static, Any, Any], Any]
        try:
            if self._gathers:
                return self._run_gathered(static, args, kwargs)
            # Most calls have arguments with a position only; to unpack others costs a tenth more.
            if kwargs or static is not NO_STATIC:
                return self.jit(first_input(self.handle, static), *args, **kwargs)
            return self.jit(self.handle, *args)
        except RecursionError as error:
            if "Recursively calling jit" not in str(error):
                raise
            run = self.run_aside
        except ValueError as error:
            if self._gathers or "incompatible devices" not in str(error):
                raise
            self._gathers = True
            run = self.run
        except TypeError:
            self._refuse(args, kwargs)
            raise
        finally:
            if self.first_runs.threads:
                self.first_runs.end()
        return run(static, args, kwargs)

    def _run_gathered(self, static: Static, args: Any, kwargs: Any) -> Any:
        """Run with arguments that are on the program's device, and without a mesh."""
        args, kwargs = moved((args, kwargs), host_device())
        with without_mesh():
            return self.jit(first_input(self.handle, static), *args, **kwargs)

    def run_aside(
        self, static: Static, args: Any, kwargs: Any, device: jax.Device | None = None
    ) -> Any:
        """Run outside JAX's cache of fast calls, on another CPU device if one is given."""
        self.first_runs.wait_for_trace(signature_of(static, args, kwargs))
        handle = self.handle if device is None else moved(self.handle, device)
        executable = self.lower(static, args, kwargs, handle).compile()
        return run_compiled(executable, first_input(handle, static), *args, **kwargs)

    def run_on_spare_device(self, static: Static, args: Any, kwargs: Any) -> Any:
        """Run where there is room, and bring the results to where they are otherwise."""
        device = spare_device()
        args, kwargs = moved((args, kwargs), device)
        return moved_back(self.run_aside(static, args, kwargs, device))

    def lower(self, static: Static, args: Any, kwargs: Any, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Lowered``, of values or of abstract values."""
        is_nested = self.first_runs.is_mine()
        handle = self.handle if handle is None else handle
        try:
            return self.jit.lower(first_input(handle, static), *args, **kwargs)
        finally:
            if not is_nested:
                self.first_runs.end()

    def trace(self, args: Any, kwargs: Any) -> None:
        """Make the program of abstract values, and no more."""
        try:
            self.jit.trace(self.handle, *args, **kwargs)
        finally:
            self.first_runs.end()
