"""How the program of a qjit function gets to run: by JAX's fast calls, or around them."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax

from bellhop._jax.compiled_runs import check_results, run_compiled
from bellhop._jax.dispatch import NotRun, copied, fast_calls
from bellhop.base.devices import host_device
from bellhop.base.flat import flat_arguments, restored_arguments
from bellhop.base.static_arguments import Static
from bellhop.compiler.code import Code, table_handle
from bellhop.compiler.failures import with_failures
from bellhop.compiler.placement import (
    Elsewhere,
    are_together,
    committed_devices,
    default_on_host,
    gathered,
    moved,
    moved_freely,
    on_host,
    ready,
)
from bellhop.run.crowding import spare_device
from bellhop.run.embedding import (
    Compile,
    Traces,
    embedding_jit,
    first_input,
    of_first_input,
    signature_of,
    wait_for,
)
from bellhop.run.given_call import GivenCall
from bellhop.run.jit_options import JitOptions
from bellhop.run.unfinished import Unfinished
from bellhop_runtime import CallbackTable, CallWithArguments, within


class _OnFormerDevice(Exception):
    """A program is called with a handle on a device that JAX has dropped."""


class Runner:
    """The fast calls of a qjit function, and the ways around them.

    JAX holds nothing while a program runs, nor does anything here: a callback may call its own
    function, or wait for a thread that does.

    Attributes:
        given_handle: the handle that fast calls are given; None until JAX's devices are asked for.
        needs_call: whether a program has regions that take what it is called with, or keep what it
            returns, so that each call has a handle of its own.
    """

    def __init__(
        self,
        name: str,
        table: CallbackTable,
        compile_: Compile,
        run_uncompiled: Callable[[Static, Any, Any], Any],
        refuse: Callable[..., None],
        finish: Callable[
            [jax.stages.Lowered, Any, Any, dict[str, Any] | None], jax.stages.Compiled
        ],
        jit_options: JitOptions,
    ) -> None:
        """Begin without programs.

        Args:
            name: what the function is called.
            table: that of its programs.
            compile_: makes the program of a new signature.
            run_uncompiled: runs the function itself.
            refuse: raises what is wrong with arguments that JAX refused, if it knows.
            finish: makes the executable of what was lowered for arguments, each a ``Flat``, on the
                host's device, with XLA's options.
            jit_options: the options of the ``jax.jit`` that programs are embedded into.
        """

        def compile_here(*arguments: Any) -> Any:
            handle = self.given_handle
            if handle is not self.handle:
                raise _OnFormerDevice
            code, out_tree = compile_(*arguments)
            signature = signature_of(*arguments)
            if not jit_options.keep_unused:
                self._operands[signature] = code.arguments
            self._generator_options[signature] = code.compiler_options
            if code.jaxpr is not None:
                self._jaxprs[code] = code.jaxpr()
            if code.needs_call:
                self.needs_call = True
            return code, out_tree

        def uncompiled(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            return run_uncompiled(of_first_input(first)[1], args, kwargs)

        def uncompiled_flat(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = restored_arguments(args, kwargs)
            return uncompiled(first, *args, **kwargs)

        uncompiled.__name__ = name
        self._name = name
        self._traces = Traces()
        self._embedding = embedding_jit(self._traces, name, jit_options, compile_here)
        self._uncompiled: Callable[..., Any] | None = uncompiled_flat
        self.needs_call = False
        # The arguments that are operands, of each program.
        self._operands: dict[Hashable, tuple[int, ...]] = {}
        # The generator of kernels for each program, which is traced before it is known.
        self._generator_options: dict[Hashable, dict[str, bool] | None] = {}
        # Classical programs, each for as long as JAX may lower it.
        self._jaxprs: weakref.WeakKeyDictionary[Code, Any] = weakref.WeakKeyDictionary()
        # One that began before a program was found to take arguments may run none that does.
        self._jit_without = fast_calls(uncompiled, self._compile_once, lambda: not self.needs_call)
        self._jit_with = fast_calls(uncompiled, self._compile_once, lambda: True)
        self._table = table
        self._donated = jit_options.donated
        self._jit_options = jit_options
        # Those that Lowered.compile was called with, beside the options of the jax.jit.
        self._compile_options: dict[str, Any] | None = None
        self.given_handle: Any = None
        self._refuse = refuse
        self._finish = finish
        # Whether JAX ever would have run a program elsewhere.
        self._gathers = False

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._embedding.clear_cache()
        self._jit_without._clear_cache()
        self._jit_with._clear_cache()

    @property
    def jit(self) -> Any:
        """What calls by a handle and the arguments, or returns ``NotRun``."""
        return self._jit_with if self.needs_call else self._jit_without

    def _compile_once(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Compile, unless another thread does."""
        args, kwargs = flat_arguments(args, kwargs)
        signature = signature_of(of_first_input(first)[1], args, kwargs)
        self._traces.wait_for(signature)

        def compiled() -> Any:
            lowered = self._embedding.lower(first, *args, **kwargs)
            options = self._options_of(signature)
            return with_failures(lambda: self._finish(lowered, args, kwargs, options))

        return within("is compiled for new types of arguments", compiled)

    def _new_handle(self) -> Any:
        handle = table_handle(self._table)
        if len(jax.local_devices(backend="cpu")) > 1:
            # An array on one would be on its way to programs that run on another.
            return handle
        return jax.block_until_ready(copied(handle, host_device()))

    @property
    def handle(self) -> Any:
        """That of the table: an array on the host, or of NumPy's where the host is several devices.

        ``clear_backends`` and the end of the process let JAX drop its devices, and its programs
        with them.  An operand on a device of before would be on its way when a program begins,
        which then runs on a thread of XLA's: signals do not get there, and at the end of the
        process no Python function is called from it.
        """
        given = self.given_handle
        if given is None or (isinstance(given, jax.Array) and given.devices() != {host_device()}):
            self.given_handle = self._new_handle()
        return self.given_handle

    @property
    def has_fast_calls(self) -> bool:
        """Whether ``jit`` may be called with the arguments as they are."""
        copies = self.needs_call and self._donated
        return self.given_handle is not None and not self._gathers and not copies

    def run(self, call: GivenCall, begun: Any = None, failed: BaseException | None = None) -> Any:
        """Run by a fast call where that is possible, or go on after one.

        Args:
            call: the call.
            begun: what a fast call has returned, or None.
            failed: what it has raised, or None.
        """
        is_aside = False
        # Not what another call finds out while this one is under way.
        gathers = self._gathers and begun is None and failed is None
        try:
            if failed is not None:
                try:
                    raise failed
                finally:
                    failed = None
            if gathers:
                return self._run_gathered(call)
            with default_on_host():
                return self._run(call, begun)
        except RecursionError as error:
            # JAX's C++ refuses a program that it is compiling; all else has frames of its own.
            if not _is_raised_here(error):
                raise
            is_aside = True
        except _OnFormerDevice:
            pass
        except Elsewhere:
            if gathers:
                raise
            self._gathers = True
        except ValueError:
            # Arguments on several devices are refused by JAX, before anything runs.
            if gathers or are_together((call.args, call.kwargs)):
                raise
            self._gathers = True
        except (TypeError, OverflowError):
            self._refuse(*call.given, are_values=True)
            raise
        return self.run_aside(call) if is_aside else self.run(call)

    def _run_gathered(self, call: GivenCall) -> Any:
        with on_host():
            return self._run(self._gathered(call.flat))

    def _gathered(self, call: GivenCall) -> GivenCall:
        """Return a flat call with what the program takes where it finds it."""
        return call.taking(gathered((call.args, call.kwargs), self._operands_of(call)))

    def _operands_of(self, call: GivenCall) -> tuple[int, ...] | None:
        """Return which arguments of a flat call are operands; None for all."""
        return self._operands.get(signature_of(call.static, call.args, call.kwargs))

    def _compiler_options_of(self, call: GivenCall) -> dict[str, Any] | None:
        """Return XLA's options for the program of a flat call; None for the defaults."""
        return self._options_of(signature_of(call.static, call.args, call.kwargs))

    def _options_of(self, signature: Hashable) -> dict[str, Any] | None:
        """Return XLA's options for the program of a signature; None for the defaults."""
        # The user's options have precedence.
        options = {
            **(self._generator_options.get(signature) or {}),
            **self._jit_options.compiler_options,
            **(self._compile_options or {}),
        }
        return options or None

    def _run(self, call: GivenCall, begun: Any = None) -> Any:
        handle = self.given_handle
        if handle is None:
            handle = self.handle
        if begun is None:
            run = lambda first: self.jit(first, *call.args, **call.kwargs)
            begun = self._run_with(run, handle, call)
        if type(begun) is NotRun:
            call = call.flat
            args, kwargs = ready(call.args, call.kwargs)
            run = lambda first: run_compiled(
                begun.compiled, self._uncompiled, first, *args, **kwargs
            )
            return self._run_with(run, handle, call)
        return begun

    def _run_with(self, run: Callable[[Any], Any], handle: Any, call: GivenCall) -> Any:
        """Run a program with what it takes first: the handle of the table, or one of this call.

        Args:
            run: takes that and runs the program, or compiles it.
            handle: that of the table.
            call: the call.
        """
        if not self.needs_call:
            return run(first_input(handle, call.static))
        # It lasts as long as the run, which may have begun late.
        given = CallWithArguments(self._table, self._leaves(call))
        try:
            result = run(first_input(table_handle(given), call.static))
            if type(result) is not NotRun:
                wait_for(result)
            return result.of_call(given) if type(result) is Unfinished else result
        finally:
            # An exception has this frame, and would keep what the run has left.
            del given

    def _leaves(self, call: GivenCall) -> list[Any]:
        """Return the arguments that regions take, with copies of what the program may overwrite."""
        leaves = jax.tree.leaves(call.given)
        if not self._donated:
            return leaves
        call = call.flat
        operands = self._operands_of(call)
        # The order of leaves is that of JAX, which sorts keyword arguments.
        arguments = [*enumerate(call.args), *sorted(call.kwargs.items())]
        takes = [(key, leaf) for key, argument in arguments for leaf in argument.leaves]
        for number, (key, taken) in enumerate(takes):
            is_operand = operands is None or number in operands
            is_overwritten = key in self._donated and is_operand and taken is leaves[number]
            if is_overwritten and isinstance(taken, jax.Array):
                leaves[number] = taken.copy()
        return leaves

    def check(self, call: GivenCall, results: Any) -> None:
        """Refuse what a run has returned as ``jax.debug_nans`` and ``jax.debug_infs`` ask."""
        call, name = call.flat, f"jit({self._name})"
        with on_host():
            first = first_input(self.handle, call.static)
            check_results(name, results, self._uncompiled, first, *call.args, **call.kwargs)

    def run_aside(self, call: GivenCall, device: jax.Device | None = None) -> Any:
        """Run outside JAX's cache of fast calls, on another CPU device if one is given."""
        call = call.flat
        call = call.taking(gathered((call.args, call.kwargs)))
        with on_host():
            self._traces.wait_for(signature_of(call.static, call.args, call.kwargs))
        # Also where it is an array of NumPy's: without it nothing may say where to run.
        handle = self.handle if device is None else jax.device_put(self.handle, device)
        executable = self.compile(call, handle)
        (handle, *args), kwargs = ready((handle, *call.args), call.kwargs, device)
        with default_on_host():
            run = lambda first: run_compiled(executable, self._uncompiled, first, *args, **kwargs)
            return self._run_with(run, handle, call)

    def run_on_spare_device(self, call: GivenCall) -> Any:
        """Run where there is room, and bring the results to where they are otherwise."""
        call = call.flat
        arguments = gathered((call.args, call.kwargs))
        chosen = committed_devices(arguments)
        with spare_device() as device:
            results = self.run_aside(call.taking(moved(arguments, device)), device)
        return moved(results, chosen.pop()) if chosen else moved_freely(results)

    def lower(self, call: GivenCall, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Lowered``, of values or of abstract values."""
        call = call.flat
        if handle is None:
            handle = self.handle
            call = call.taking(gathered((call.args, call.kwargs)))
        return self._staged("lower", handle, call)

    def operands_of_lowered(self, call: GivenCall) -> tuple[int, ...] | None:
        """Return which arguments are operands of what ``lower`` has made of the same here."""
        with on_host():
            return self._operands_of(call.flat)

    def options_of_lowered(self, call: GivenCall) -> dict[str, Any] | None:
        """Return XLA's options for what ``lower`` has made of the same call; None for defaults."""
        with on_host():
            return self._compiler_options_of(call.flat)

    def compile(self, call: GivenCall, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Compiled``, of values or of abstract values."""
        call = call.flat
        lowered = self.lower(call, handle)
        options = self.options_of_lowered(call)
        if handle is None or handle is self.handle:
            return with_failures(lambda: self._finish(lowered, call.args, call.kwargs, options))
        return with_failures(lambda: lowered.compile(options))

    def trace(self, call: GivenCall) -> Any:
        """Make the program of values or abstract values, and no more; return JAX's ``Traced``."""
        return self._staged("trace", self.handle, call.flat)

    def _staged(self, stage: str, handle: Any, call: GivenCall) -> Any:
        """Return a stage of the ``jax.jit``, of a flat call; errors name the argument."""
        with on_host():
            first = first_input(handle, call.static)
            try:
                return getattr(self._embedding, stage)(first, *call.args, **call.kwargs)
            except (TypeError, OverflowError):
                self._refuse(*restored_arguments(call.args, call.kwargs))
                raise


def _is_raised_here(error: BaseException) -> bool:
    """Tell whether the innermost frame of an error is one of this file."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals is globals()
