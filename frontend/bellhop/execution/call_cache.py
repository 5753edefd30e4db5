"""The C++ functions by which a qjit function's programs are called fast."""

import threading
from collections.abc import Callable
from typing import Any

import jax

from bellhop._jax.fast_dispatch import make_fast_call, uses_handle
from bellhop.arguments.static_arguments import Static
from bellhop.execution.jit_wrapper import pack_first_input

# Takes the first argument of the ``jax.jit``, and dynamic arguments.
CompileOnce = Callable[..., jax.stages.Compiled]


class CallCache:
    """The C++ functions by which the compiled programs of one qjit function are called.

    There are three functions, each with a cache of programs by argument types. They differ in the
    handle that they pass to the program: uint32[2], the address of the function's callback table,
    or of the data of one call. `choose` selects a function by all programs compiled so far:

    ==================================  ===================================================
    programs so far                     arguments of the C++ function
    ==================================  ===================================================
    none calls Bellhop's runtime        the caller's, which takes half a microsecond less
    one calls the runtime               the table's handle, and the caller's
    one needs a handle for each call    the call's handle, and the caller's
    ==================================  ===================================================

    With static arguments, ``Static.key`` comes first.

    Attributes:
        needs_call_handle: whether a program has regions (parts on other devices) that read the
            caller's arguments or keep results on their device, so that each call has its own
            handle.
    """

    def __init__(
        self,
        name: str,
        uncompiled: Callable[..., Any],
        compile_once: CompileOnce,
        get_handle: Callable[[], Any],
        *,
        has_static: bool,
    ) -> None:
        """Create the three C++ functions, with empty caches.

        Args:
            name: name of the function.
            uncompiled: calls the user's function eagerly. It takes the arguments of the ``jax.jit``
                that contains the programs: the handle, or a tuple of the handle and the static
                arguments; then the dynamic arguments.
            compile_once: takes the same arguments; compiles the program for them without running
                it.
            get_handle: returns the table's handle.
            has_static: whether the function has static arguments.
        """
        self.needs_call_handle = False
        self._has_static = has_static
        self._compile_once = compile_once
        self._get_handle = get_handle
        # None before a program is compiled.
        self._uses_handle: bool | None = None
        self._compiled_now = threading.local()

        def call_uncompiled(*args: Any, **kwargs: Any) -> Any:
            """Call the user's function eagerly; the arguments include a handle."""
            return uncompiled(*self._pack_first_input(args), **kwargs)

        def call_uncompiled_without_handle(*args: Any, **kwargs: Any) -> Any:
            """Call the user's function eagerly; the arguments do not include a handle."""
            return uncompiled(*self._pack_first_input(self._insert_handle(args)), **kwargs)

        call_uncompiled.__name__ = call_uncompiled_without_handle.__name__ = name
        self._without_handle = make_fast_call(
            call_uncompiled_without_handle,
            self._compile_without_handle,
            lambda: not self._uses_handle,
            has_static=has_static,
            has_handle=False,
        )
        # A cache from before `needs_call_handle` must not run programs that need a call's handle.
        self._with_handle = make_fast_call(
            call_uncompiled,
            self._compile,
            lambda: not self.needs_call_handle,
            has_static=has_static,
        )
        self._with_call_handle = make_fast_call(
            call_uncompiled, self._compile, lambda: True, has_static=has_static
        )

    def choose(self) -> tuple[Any, bool]:
        """Return the C++ function for the next call, and whether to pass a handle to it.

        At the first call of a signature, the C++ function compiles the program and returns it as an
        ``UnexecutedProgram``.
        """
        if self.needs_call_handle:
            return self._with_call_handle, True
        if self._uses_handle is False:
            return self._without_handle, False
        return self._with_handle, True

    def clear_cache(self) -> None:
        """Drop all compiled programs from the caches of the C++ functions."""
        for function in (self._without_handle, self._with_handle, self._with_call_handle):
            function._clear_cache()

    def _compile(self, *args: Any, **kwargs: Any) -> jax.stages.Compiled:
        """Compile the program for a call with a handle, on a miss of the C++ cache."""
        compiled = self._compile_once(*self._pack_first_input(args), **kwargs)
        if self._uses_handle is None and not uses_handle(compiled):
            self._cache_without_handle(compiled, args, kwargs)
        self._record_program(compiled)
        return compiled

    def _record_program(self, compiled: jax.stages.Compiled) -> None:
        """Record whether any program so far uses the handle; all later calls then pass it."""
        self._uses_handle = bool(self._uses_handle) or uses_handle(compiled)

    def _cache_without_handle(
        self, compiled: jax.stages.Compiled, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Insert a function's first program into the cache for calls without a handle.

        The first call passes a handle, since no program is known yet. The second call will not pass
        a handle, and would miss the cache. The program is inserted by a call of the C++ function
        that misses the cache; the cache is still empty, so this call does not run a program.

        Args:
            compiled: the program, which does not use the handle.
            args: positional arguments of the first call, with the handle.
            kwargs: keyword arguments of the first call.
        """
        self._compiled_now.program = compiled
        at = int(self._has_static)
        try:
            self._without_handle(*args[:at], *args[at + 1 :], **kwargs)
        finally:
            del self._compiled_now.program

    def _compile_without_handle(self, *args: Any, **kwargs: Any) -> jax.stages.Compiled:
        """Compile the program for a call without a handle, on a miss of the C++ cache.

        While `_cache_without_handle` inserts a program in this thread, return this program instead.
        """
        compiled = getattr(self._compiled_now, "program", None)
        if compiled is None:
            first, *rest = self._pack_first_input(self._insert_handle(args))
            compiled = self._compile_once(first, *rest, **kwargs)
            self._record_program(compiled)
        return compiled

    def _insert_handle(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Add the table's handle to positional arguments of a call without a handle."""
        at = int(self._has_static)
        return *args[:at], self._get_handle(), *args[at:]

    def _pack_first_input(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Convert positional arguments of a C++ function to arguments of the ``jax.jit``.

        If the function has static arguments, ``(key, handle, *rest)`` becomes
        ``((handle, static), *rest)``; otherwise nothing changes.
        """
        if not self._has_static:
            return args
        key, handle, *rest = args
        return pack_first_input(handle, Static.from_key(key)), *rest
