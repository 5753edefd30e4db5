"""How the program of a qjit function gets to run: by JAX's fast calls, or around them."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax

from bellhop._jax.fast_dispatch import UnexecutedProgram, copy_to_device, make_fast_call
from bellhop._jax.private import INVALID_ARGUMENT
from bellhop._jax.slow_dispatch import check_results, run_compiled
from bellhop.arguments.flat_tree import flatten_call, unflatten_call
from bellhop.arguments.static_arguments import Static
from bellhop.compiler.failures import run_with_failures
from bellhop.compiler.host_placement import (
    NotOnHostError,
    committed_devices,
    default_to_host,
    gather,
    has_single_device,
    move_to_device,
    move_uncommitted,
    prepare_arguments,
    use_host,
)
from bellhop.compiler.program import Code, table_handle
from bellhop.devices.devices import host_device
from bellhop.execution.call_args import CallArgs
from bellhop.execution.cpu_client_pool import borrow_spare_device
from bellhop.execution.jit_options import JitOptions
from bellhop.execution.jit_wrapper import (
    Compile,
    TraceRegistry,
    compute_signature,
    make_jit_wrapper,
    pack_first_input,
    unpack_first_input,
    wait_until_started,
)
from bellhop.execution.pending_results import PendingResults
from bellhop_runtime import CallbackTable, CallWithArguments, within


class _StaleDeviceError(Exception):
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
            finish: makes the executable of what was lowered for arguments, each a ``FlatTree``, on
                the host's device, with XLA's options.
            jit_options: the options of the ``jax.jit`` that programs are embedded into.
        """

        def compile_here(*arguments: Any) -> Any:
            handle = self.given_handle
            if handle is not self.handle:
                raise _StaleDeviceError
            code, out_tree = compile_(*arguments)
            signature = compute_signature(*arguments)
            if not jit_options.keep_unused:
                self._operands[signature] = code.arguments
            self._generator_options[signature] = code.compiler_options
            if code.jaxpr is not None:
                self._jaxprs[code] = code.jaxpr()
            if code.needs_call:
                self.needs_call = True
            return code, out_tree

        def uncompiled(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            return run_uncompiled(unpack_first_input(first)[1], args, kwargs)

        def uncompiled_flat(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = unflatten_call(args, kwargs)
            return uncompiled(first, *args, **kwargs)

        uncompiled.__name__ = name
        self._name = name
        self._traces = TraceRegistry()
        self._embedding = make_jit_wrapper(self._traces, name, jit_options, compile_here)
        self._uncompiled: Callable[..., Any] | None = uncompiled_flat
        self.needs_call = False
        # The arguments that are operands, of each program.
        self._operands: dict[Hashable, tuple[int, ...]] = {}
        # The generator of kernels for each program, which is traced before it is known.
        self._generator_options: dict[Hashable, dict[str, bool] | None] = {}
        # Classical programs, each for as long as JAX may lower it.
        self._jaxprs: weakref.WeakKeyDictionary[Code, Any] = weakref.WeakKeyDictionary()
        # One that began before a program was found to take arguments may run none that does.
        self._jit_without = make_fast_call(
            uncompiled, self._compile_once, lambda: not self.needs_call
        )
        self._jit_with = make_fast_call(uncompiled, self._compile_once, lambda: True)
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
        """What calls by a handle and the arguments, or returns ``UnexecutedProgram``."""
        return self._jit_with if self.needs_call else self._jit_without

    def _compile_once(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Compile, unless another thread does."""
        args, kwargs = flatten_call(args, kwargs)
        signature = compute_signature(unpack_first_input(first)[1], args, kwargs)
        self._traces.wait_for_trace(signature)

        def compiled() -> Any:
            lowered = self._embedding.lower(first, *args, **kwargs)
            options = self._options_of(signature)
            return run_with_failures(lambda: self._finish(lowered, args, kwargs, options))

        return within("is compiled for new types of arguments", compiled)

    def _new_handle(self) -> Any:
        handle = table_handle(self._table)
        if len(jax.local_devices(backend="cpu")) > 1:
            # An array on one would be on its way to programs that run on another.
            return handle
        return jax.block_until_ready(copy_to_device(handle, host_device()))

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

    def run(self, call: CallArgs, begun: Any = None, failed: BaseException | None = None) -> Any:
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
            with default_to_host():
                return self._run(call, begun)
        except RecursionError as error:
            # JAX's C++ refuses a program that it is compiling; all else has frames of its own.
            if not _was_raised_here(error):
                raise
            is_aside = True
        except _StaleDeviceError:
            pass
        except NotOnHostError:
            if gathers:
                raise
            self._gathers = True
        except ValueError:
            # JAX cannot flatten a dictionary whose keys have no order.
            self._refuse(*call.caller_arguments, are_values=True)
            # Arguments on several devices are refused by JAX, before anything runs.
            if gathers or has_single_device((call.args, call.kwargs)):
                raise
            self._gathers = True
        except (TypeError, OverflowError, INVALID_ARGUMENT):
            self._refuse(*call.caller_arguments, are_values=True)
            raise
        return self.run_uncached(call) if is_aside else self.run(call)

    def _run_gathered(self, call: CallArgs) -> Any:
        with use_host():
            return self._run(self._gather_call(call.flattened))

    def _gather_call(self, call: CallArgs) -> CallArgs:
        """Return a flat call with what the program takes where it finds it."""
        return call.with_arguments(gather((call.args, call.kwargs), self._operand_indices(call)))

    def _operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        """Return which arguments of a flat call are operands; None for all."""
        return self._operands.get(compute_signature(call.static, call.args, call.kwargs))

    def _compiler_options_of(self, call: CallArgs) -> dict[str, Any] | None:
        """Return XLA's options for the program of a flat call; None for the defaults."""
        return self._options_of(compute_signature(call.static, call.args, call.kwargs))

    def _options_of(self, signature: Hashable) -> dict[str, Any] | None:
        """Return XLA's options for the program of a signature; None for the defaults."""
        # The user's options have precedence.
        options = {
            **(self._generator_options.get(signature) or {}),
            **self._jit_options.compiler_options,
            **(self._compile_options or {}),
        }
        return options or None

    def _run(self, call: CallArgs, begun: Any = None) -> Any:
        handle = self.given_handle
        if handle is None:
            handle = self.handle
        if begun is None:
            run = lambda first: self.jit(first, *call.args, **call.kwargs)
            begun = self._run_on_handle(run, handle, call)
        if type(begun) is UnexecutedProgram:
            call = call.flattened
            args, kwargs = prepare_arguments(call.args, call.kwargs)
            run = lambda first: run_compiled(
                begun.compiled, self._uncompiled, first, *args, **kwargs
            )
            return self._run_on_handle(run, handle, call)
        return begun

    def _run_on_handle(self, run: Callable[[Any], Any], handle: Any, call: CallArgs) -> Any:
        """Run a program with what it takes first: the handle of the table, or one of this call.

        Args:
            run: takes that and runs the program, or compiles it.
            handle: that of the table.
            call: the call.
        """
        if not self.needs_call:
            return run(pack_first_input(handle, call.static))
        # It lasts as long as the run, which may have begun late.
        given = CallWithArguments(self._table, self._copy_donated_leaves(call))
        try:
            result = run(pack_first_input(table_handle(given), call.static))
            if type(result) is not UnexecutedProgram:
                wait_until_started(result)
            return result.with_call(given) if type(result) is PendingResults else result
        finally:
            # An exception has this frame, and would keep what the run has left.
            del given

    def _copy_donated_leaves(self, call: CallArgs) -> list[Any]:
        """Return the arguments that regions take, with copies of what the program may overwrite."""
        leaves = jax.tree.leaves(call.caller_arguments)
        if not self._donated:
            return leaves
        call = call.flattened
        operands = self._operand_indices(call)
        # The order of leaves is that of JAX, which sorts keyword arguments.
        arguments = [*enumerate(call.args), *sorted(call.kwargs.items())]
        takes = [(key, leaf) for key, argument in arguments for leaf in argument.leaves]
        for number, (key, taken) in enumerate(takes):
            is_operand = operands is None or number in operands
            is_overwritten = key in self._donated and is_operand and taken is leaves[number]
            if is_overwritten and isinstance(taken, jax.Array):
                leaves[number] = taken.copy()
        return leaves

    def check_results(self, call: CallArgs, results: Any) -> None:
        """Refuse what a run has returned as ``jax.debug_nans`` and ``jax.debug_infs`` ask."""
        call, name = call.flattened, f"jit({self._name})"
        with use_host():
            first = pack_first_input(self.handle, call.static)
            check_results(name, results, self._uncompiled, first, *call.args, **call.kwargs)

    def run_uncached(self, call: CallArgs, device: jax.Device | None = None) -> Any:
        """Run outside JAX's cache of fast calls, on another CPU device if one is given."""
        call = call.flattened
        call = call.with_arguments(gather((call.args, call.kwargs)))
        with use_host():
            self._traces.wait_for_trace(compute_signature(call.static, call.args, call.kwargs))
        # Also where it is an array of NumPy's: without it nothing may say where to run.
        handle = self.handle if device is None else jax.device_put(self.handle, device)
        executable = self.compile(call, handle)
        (handle, *args), kwargs = prepare_arguments((handle, *call.args), call.kwargs, device)
        with default_to_host():
            run = lambda first: run_compiled(executable, self._uncompiled, first, *args, **kwargs)
            return self._run_on_handle(run, handle, call)

    def run_on_spare_device(self, call: CallArgs) -> Any:
        """Run where there is room, and bring the results to where they are otherwise."""
        call = call.flattened
        arguments = gather((call.args, call.kwargs))
        chosen = committed_devices(arguments)
        with borrow_spare_device() as device:
            results = self.run_uncached(
                call.with_arguments(move_to_device(arguments, device)), device
            )
        return move_to_device(results, chosen.pop()) if chosen else move_uncommitted(results)

    def lower(self, call: CallArgs, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Lowered``, of values or of abstract values."""
        call = call.flattened
        if handle is None:
            handle = self.handle
            call = call.with_arguments(gather((call.args, call.kwargs)))
        return self._run_stage("lower", handle, call)

    def lowered_operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        """Return which arguments are operands of what ``lower`` has made of the same here."""
        with use_host():
            return self._operand_indices(call.flattened)

    def options_of_lowered(self, call: CallArgs) -> dict[str, Any] | None:
        """Return XLA's options for what ``lower`` has made of the same call; None for defaults."""
        with use_host():
            return self._compiler_options_of(call.flattened)

    def compile(self, call: CallArgs, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Compiled``, of values or of abstract values."""
        call = call.flattened
        lowered = self.lower(call, handle)
        options = self.options_of_lowered(call)
        if handle is None or handle is self.handle:
            return run_with_failures(lambda: self._finish(lowered, call.args, call.kwargs, options))
        return run_with_failures(lambda: lowered.compile(options))

    def trace(self, call: CallArgs) -> Any:
        """Make the program of values or abstract values, and no more; return JAX's ``Traced``."""
        return self._run_stage("trace", self.handle, call.flattened)

    def _run_stage(self, stage: str, handle: Any, call: CallArgs) -> Any:
        """Return a stage of the ``jax.jit``, of a flat call; errors name the argument."""
        with use_host():
            first = pack_first_input(handle, call.static)
            try:
                return getattr(self._embedding, stage)(first, *call.args, **call.kwargs)
            except (TypeError, OverflowError, INVALID_ARGUMENT):
                self._refuse(*unflatten_call(call.args, call.kwargs))
                raise


def _was_raised_here(error: BaseException) -> bool:
    """Tell whether the innermost frame of an error is one of this file."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals is globals()
