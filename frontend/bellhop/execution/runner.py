"""Execution of a qjit function's programs, by JAX's fast path or around it."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax

from bellhop._jax.fast_dispatch import UnexecutedProgram, copy_to_device
from bellhop._jax.private import INVALID_ARGUMENT
from bellhop._jax.slow_dispatch import check_results, run_compiled, search_invalid_values
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
from bellhop.execution.call_cache import CallCache
from bellhop.execution.cpu_client_pool import borrow_spare_device
from bellhop.execution.jit_options import JitOptions
from bellhop.execution.jit_wrapper import (
    Compile,
    TraceRegistry,
    compute_signature,
    make_jit_wrapper,
    pack_first_input,
    unpack_first_input,
    wait_until_finished,
)
from bellhop.execution.pending_results import PendingResults
from bellhop_runtime import CallbackTable, CallWithArguments, within


class _StaleDeviceError(Exception):
    """The table handle is on a device that JAX has dropped."""


class Runner:
    """Runs the compiled programs of one qjit function, through JAX's C++ dispatch if possible.

    There is one program for each signature: types and structure of the arguments, and values of
    static arguments. Each `QJIT` creates one runner. Neither JAX nor this class holds a lock while
    a program runs: a callback may call its own function, or wait for a thread that does.

    The first argument of each program is a handle: uint32[2], the address of the table of the
    function's callbacks. A "fast call" goes through JAX's C++ dispatch.

    Attributes:
        current_handle: handle that fast calls pass, as returned by `handle`; None until `handle` is
            first read, which initialises JAX's devices.
    """

    def __init__(
        self,
        name: str,
        table: CallbackTable,
        compile_: Compile,
        run_uncompiled: Callable[[Static, Any, Any], Any],
        explain_rejected_arguments: Callable[..., None],
        make_executable: Callable[
            [jax.stages.Lowered, Any, Any, dict[str, Any] | None], jax.stages.Compiled
        ],
        jit_options: JitOptions,
        *,
        has_static: bool,
    ) -> None:
        """Create a runner that has not compiled any program.

        Args:
            name: name of the function.
            table: callback table of its programs.
            compile_: takes static, positional and keyword arguments of a new signature and compiles
                its program; returns the code and the ``PyTreeDef`` of the result.
            run_uncompiled: takes the same arguments as pytrees; calls the user's function eagerly.
            explain_rejected_arguments: raises a clear error for arguments that JAX rejected, if it
                finds the reason.
            make_executable: takes JAX's ``Lowered``, flat arguments on the host and XLA's options
                or None; compiles the executable.
            jit_options: options of the ``jax.jit`` that contains the programs.
            has_static: whether the function has static arguments.
        """

        def compile_here(*arguments: Any) -> Any:
            """Compile the program for a new signature, and record its operands and XLA options.

            Args:
                *arguments: static, positional and keyword arguments, as for `compile_`.

            Returns:
                the result of `compile_`: the code and the ``PyTreeDef`` of the result.

            Raises:
                _StaleDeviceError: if JAX has dropped the handle's device since this call began.
            """
            handle = self.current_handle
            if handle is not self.handle:
                raise _StaleDeviceError
            code, out_tree = compile_(*arguments)
            signature = compute_signature(*arguments)
            if not jit_options.keep_unused:
                self._operands[signature] = code.arguments
            self._generator_options[signature] = code.compiler_options
            if code.jaxpr is not None:
                self._jaxprs[code] = code.jaxpr()
            if code.needs_call_handle:
                self._call_cache.needs_call_handle = True
            return code, out_tree

        def uncompiled(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            """Call the user's function eagerly; ``first`` has its static arguments."""
            # JAX calls this function to locate a NaN.
            with search_invalid_values():
                return run_uncompiled(unpack_first_input(first)[1], args, kwargs)

        def uncompiled_flat(first: Any, /, *args: Any, **kwargs: Any) -> Any:
            """Call the user's function eagerly; each argument is a ``FlatTree``."""
            args, kwargs = unflatten_call(args, kwargs)
            return uncompiled(first, *args, **kwargs)

        self._has_static = has_static
        self._name = name
        self._traces = TraceRegistry()
        self._embedding = make_jit_wrapper(self._traces, name, jit_options, compile_here)
        self._uncompiled: Callable[..., Any] | None = uncompiled_flat
        # Indices of the arguments that are operands, by signature.
        self._operands: dict[Hashable, tuple[int, ...]] = {}
        # Code generator options by signature, which are known after tracing.
        self._generator_options: dict[Hashable, dict[str, bool | str] | None] = {}
        # Jaxprs of classical programs, kept as long as JAX may lower them.
        self._jaxprs: weakref.WeakKeyDictionary[Code, Any] = weakref.WeakKeyDictionary()
        self._call_cache = CallCache(
            name,
            uncompiled,
            self._compile_once,
            self._get_handle_unchecked,
            has_static=has_static,
        )
        self._table = table
        self._donated = jit_options.donated
        self._jit_options = jit_options
        # Options of Lowered.compile, in addition to the ``jax.jit``'s.
        self._compile_options: dict[str, Any] | None = None
        self.current_handle: Any = None
        self._explain_rejected_arguments = explain_rejected_arguments
        self._make_executable = make_executable
        # Whether JAX ever would have run a program on other devices.
        self._gathers = False

    def clear_cache(self) -> None:
        """Drop all compiled programs from JAX's caches."""
        self._embedding.clear_cache()
        self._call_cache.clear_cache()

    @property
    def needs_call_handle(self) -> bool:
        """Whether each call needs a new handle, in place of the function's handle.

        True if a program has regions (parts on other devices) that read the caller's arguments or
        keep results on their device.
        """
        return self._call_cache.needs_call_handle

    def choose_fast_call(self) -> tuple[Any, Any]:
        """Return JAX's C++ function for the next call, and the handle of the callback table.

        The handle is None if the program needs none. Call the C++ function with ``Static.key``, if
        the user's function has static arguments; the handle, unless it is None; and the caller's
        arguments. For a new signature, the C++ function compiles the program without executing it,
        and returns an ``UnexecutedProgram``.
        """
        function, has_handle = self._call_cache.choose()
        return function, self.current_handle if has_handle else None

    def _compile_once(self, first: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Compile the program for some arguments without running it; return JAX's ``Compiled``.

        If another thread is tracing the same signature, wait for its trace, which JAX then reuses.
        ``first`` is the handle, or a tuple of handle and static arguments.
        """
        args, kwargs = flatten_call(args, kwargs)
        signature = compute_signature(unpack_first_input(first)[1], args, kwargs)
        self._traces.wait_for_trace(signature)

        def compile_program() -> Any:
            """Lower the ``jax.jit`` for these arguments, and compile the executable."""
            lowered = self._embedding.lower(first, *args, **kwargs)
            options = self._get_compiler_options(signature)
            return run_with_failures(lambda: self._make_executable(lowered, args, kwargs, options))

        return within("is compiled for new types of arguments", compile_program)

    def _new_handle(self) -> Any:
        """Create an array, uint32[2], with the address of the callback table.

        It is a JAX array on the CPU device; if there are several CPU devices, a NumPy array.
        """
        handle = table_handle(self._table)
        if len(jax.local_devices(backend="cpu")) > 1:
            # With several CPU devices, a JAX array would be copied to the program's device first.
            return handle
        return jax.block_until_ready(copy_to_device(handle, host_device()))

    @property
    def handle(self) -> Any:
        """Address of the function's callback table, uint32[2]: the first argument of programs.

        It is created at the first access, and replaced if JAX has dropped its device and programs,
        as at ``clear_backends`` and the end of the process.
        """
        # A handle on a dropped device would be copied when a program begins, which would then run
        # on a thread of XLA: signals are not handled there, and at the end of the process it cannot
        # call Python functions.
        given = self.current_handle
        if given is None or (isinstance(given, jax.Array) and given.devices() != {host_device()}):
            self.current_handle = self._new_handle()
        return self.current_handle

    def _get_handle_unchecked(self) -> Any:
        """Return the present handle, even if JAX has dropped its device; create the first handle.

        `compile_here` raises `_StaleDeviceError` for the handle of a dropped device.
        """
        return self.handle if self.current_handle is None else self.current_handle

    @property
    def has_fast_calls(self) -> bool:
        """Whether calls may pass the caller's arguments unchanged to JAX's C++ function.

        False before the first call, which creates the handle of the callback table, and if
        arguments may have to be copied first: donated arguments that a region reads, or arrays on
        other devices.
        """
        copies = self.needs_call_handle and self._donated
        return self.current_handle is not None and not self._gathers and not copies

    def run(
        self, call: CallArgs, fast_result: Any = None, fast_error: BaseException | None = None
    ) -> Any:
        """Run the program for a call, or finish a call that JAX's C++ function began.

        Args:
            call: the call's arguments.
            fast_result: value that the C++ function returned for this call: the results, or
                `UnexecutedProgram`; None if it was not called, or it raised.
            fast_error: exception that the C++ function raised for this call, which is handled as if
                this method had called it; None if there was none.

        Returns:
            the function's result; `PendingResults` if the caller has to convert it.

        Raises:
            TypeError: for arguments that are not arrays, naming the argument.
        """
        is_uncached = False
        # Read once, as another call may set it meanwhile.
        gathers = self._gathers and fast_result is None and fast_error is None
        try:
            if fast_error is not None:
                try:
                    raise fast_error
                finally:
                    fast_error = None
            if gathers:
                return self._run_gathered(call)
            with default_to_host():
                return self._run(call, fast_result)
        except RecursionError as error:
            # JAX's C++ raises RecursionError for a program that is being compiled; other recursion
            # errors have more frames.
            if not _was_raised_here(error):
                raise
            is_uncached = True
        except _StaleDeviceError:
            pass
        except NotOnHostError:
            if gathers:
                raise
            self._gathers = True
        except ValueError:
            # JAX cannot flatten a dictionary whose keys have no order.
            self._explain_rejected_arguments(*call.caller_arguments, are_values=True)
            # JAX raises for arguments on several devices before anything runs.
            if gathers or has_single_device((call.args, call.kwargs)):
                raise
            self._gathers = True
        except (TypeError, OverflowError, INVALID_ARGUMENT):
            self._explain_rejected_arguments(*call.caller_arguments, are_values=True)
            raise
        return self.run_uncached(call) if is_uncached else self.run(call)

    def _run_gathered(self, call: CallArgs) -> Any:
        """Copy a call's operands to the host if `gather` must, and run the call there."""
        with use_host():
            return self._run(self._gather_call(call.flattened))

    def _gather_call(self, call: CallArgs) -> CallArgs:
        """Copy the operands of a call to the host unless they are on a single CPU device.

        Args:
            call: a call whose arguments are flattened, see `CallArgs.flattened`.

        Returns:
            the call with the copies as arguments.
        """
        return call.with_arguments(gather((call.args, call.kwargs), self._operand_indices(call)))

    def _operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        """Return the indices of the argument leaves that a call's program uses; None for all.

        Args:
            call: a call whose arguments are flattened.
        """
        return self._operands.get(compute_signature(call.static, call.args, call.kwargs))

    def _get_call_compiler_options(self, call: CallArgs) -> dict[str, Any] | None:
        """Return XLA's options for the program of a flattened call; None for defaults."""
        return self._get_compiler_options(compute_signature(call.static, call.args, call.kwargs))

    def _get_compiler_options(self, signature: Hashable) -> dict[str, Any] | None:
        """Return XLA's options for the program of a signature; None for defaults."""
        # The user's options take precedence.
        options = {
            **(self._generator_options.get(signature) or {}),
            **self._jit_options.compiler_options,
            **(self._compile_options or {}),
        }
        return options or None

    def _run(self, call: CallArgs, fast_result: Any = None) -> Any:
        """Call JAX's C++ function; if it only compiled the program, execute the program.

        Args:
            call: the call's arguments.
            fast_result: value that the C++ function returned before, results or
                `UnexecutedProgram`; None to call it here.
        """
        handle = self._get_handle_unchecked()
        if fast_result is None:
            function, has_handle = self._call_cache.choose()
            key = (call.static.key,) if self._has_static else ()

            def run_fast(handle: Any) -> Any:
                """Call the C++ function with this handle and the call's arguments."""
                first = (*key, handle) if has_handle else key
                return function(*first, *call.args, **call.kwargs)

            fast_result = self._run_on_handle(run_fast, handle, call)
        if type(fast_result) is UnexecutedProgram:
            call = call.flattened
            args, kwargs = prepare_arguments(call.args, call.kwargs)
            run = lambda handle: run_compiled(
                fast_result.compiled,
                self._uncompiled,
                pack_first_input(handle, call.static),
                *args,
                **kwargs,
            )
            return self._run_on_handle(run, handle, call)
        return fast_result

    def _run_on_handle(self, run: Callable[[Any], Any], handle: Any, call: CallArgs) -> Any:
        """Call `run` with the function's handle, or with a handle made for this call.

        Args:
            run: takes the handle; runs the program, or only compiles it.
            handle: handle of the callback table, used unless `needs_call_handle` is set.
            call: the call's arguments, which regions (parts of the program on other devices) read
                through the handle of this call.

        Returns:
            the result of `run`; with a handle of this call, after the execution has finished.
        """
        if not self.needs_call_handle:
            return run(handle)
        # It must live as long as the execution, which may start late.
        call_handle = CallWithArguments(self._table, self._copy_donated_leaves(call))
        try:
            result = run(table_handle(call_handle))
            if type(result) is not UnexecutedProgram:
                wait_until_finished(result)
            return result.with_call(call_handle) if type(result) is PendingResults else result
        finally:
            # An exception would keep this frame, and with it the results.
            del call_handle

    def _copy_donated_leaves(self, call: CallArgs) -> list[Any]:
        """List the caller's argument leaves, with copies of the operands that are donated.

        The list is for regions (parts of the program on other devices), which read the caller's
        arrays directly, while the program may overwrite donated arrays.
        """
        leaves = jax.tree.leaves(call.caller_arguments)
        if not self._donated:
            return leaves
        call = call.flattened
        operands = self._operand_indices(call)
        # JAX sorts keyword arguments by name.
        arguments = [*enumerate(call.args), *sorted(call.kwargs.items())]
        program_leaves = [(key, leaf) for key, argument in arguments for leaf in argument.leaves]
        for index, (key, value) in enumerate(program_leaves):
            is_operand = operands is None or index in operands
            is_overwritten = key in self._donated and is_operand and value is leaves[index]
            if is_overwritten and isinstance(value, jax.Array):
                leaves[index] = value.copy()
        return leaves

    def check_results(self, call: CallArgs, results: Any) -> None:
        """Check a call's results for NaN and infinity, as JAX's debug options request.

        If a result is rejected, the function is evaluated eagerly to find the first operation with
        such a value.

        Args:
            call: the call's arguments.
            results: the call's results, a pytree.

        Raises:
            FloatingPointError: naming the operation, or the function if none is found.
        """
        call, name = call.flattened, f"jit({self._name})"
        with use_host():
            first = pack_first_input(self.handle, call.static)
            check_results(name, results, self._uncompiled, first, *call.args, **call.kwargs)

    def run_uncached(self, call: CallArgs, device: jax.Device | None = None) -> Any:
        """Compile and run the program for a call without JAX's fast path.

        Args:
            call: the call's arguments.
            device: the CPU device that runs the program; None for the usual CPU device.

        Returns:
            the function's result; `PendingResults` if the caller has to convert it.
        """
        call = call.flattened
        call = call.with_arguments(gather((call.args, call.kwargs)))
        with use_host():
            self._traces.wait_for_trace(compute_signature(call.static, call.args, call.kwargs))
        # Also for a NumPy array: otherwise no argument may determine the device.
        handle = self.handle if device is None else jax.device_put(self.handle, device)
        executable = self.compile(call, handle)
        (handle, *args), kwargs = prepare_arguments((handle, *call.args), call.kwargs, device)
        with default_to_host():
            run = lambda handle: run_compiled(
                executable,
                self._uncompiled,
                pack_first_input(handle, call.static),
                *args,
                **kwargs,
            )
            return self._run_on_handle(run, handle, call)

    def run_on_spare_device(self, call: CallArgs) -> Any:
        """Run a call on an additional CPU client, and move the results to their usual device.

        Used when `RUNS_PER_CLIENT` programs run on JAX's CPU client: one more could deadlock.
        """
        call = call.flattened
        arguments = gather((call.args, call.kwargs))
        chosen = committed_devices(arguments)
        with borrow_spare_device() as device:
            results = self.run_uncached(
                call.with_arguments(move_to_device(arguments, device)), device
            )
        return move_to_device(results, chosen.pop()) if chosen else move_uncommitted(results)

    def lower(self, call: CallArgs, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Lowered`` of the program for a call's values or types.

        Args:
            call: the call's arguments.
            handle: first argument of the program, the address of the callback table, on the device
                that shall run the program, where the arguments must be. None for the usual handle:
                then arguments on other devices are copied to the host.
        """
        call = call.flattened
        if handle is None:
            handle = self.handle
            call = call.with_arguments(gather((call.args, call.kwargs)))
        return self._run_stage("lower", handle, call)

    def lowered_operand_indices(self, call: CallArgs) -> tuple[int, ...] | None:
        """Return the indices of the argument leaves that a call's program uses; None for all.

        The call must have been lowered before.
        """
        with use_host():
            return self._operand_indices(call.flattened)

    def get_lowered_options(self, call: CallArgs) -> dict[str, Any] | None:
        """Return XLA's options for a call that was lowered before; None for defaults."""
        with use_host():
            return self._get_call_compiler_options(call.flattened)

    def compile(self, call: CallArgs, handle: jax.Array | None = None) -> Any:
        """Return JAX's ``Compiled`` of the program for a call's values or types.

        Args:
            call: the call's arguments.
            handle: first argument of the program, the address of the callback table, on another CPU
                device, for which XLA compiles the program. None for the usual device, whose
                executable comes from the function's `make_executable`: for a loaded function, from
                the saved machine code if there is any.
        """
        call = call.flattened
        lowered = self.lower(call, handle)
        options = self.get_lowered_options(call)
        if handle is None or handle is self.handle:
            return run_with_failures(
                lambda: self._make_executable(lowered, call.args, call.kwargs, options)
            )
        return run_with_failures(lambda: lowered.compile(options))

    def trace(self, call: CallArgs) -> Any:
        """Trace and optimise the program for values or types; return JAX's ``Traced``."""
        return self._run_stage("trace", self.handle, call.flattened)

    def _run_stage(self, stage: str, handle: Any, call: CallArgs) -> Any:
        """Trace or lower the ``jax.jit`` for a call; return JAX's ``Traced`` or ``Lowered``.

        Args:
            stage: method of the ``jax.jit``: ``"lower"`` or ``"trace"``.
            handle: first argument of the program.
            call: a call whose arguments are flattened.

        Raises:
            TypeError: naming the argument, if JAX does not accept it.
        """
        with use_host():
            first = pack_first_input(handle, call.static)
            try:
                return getattr(self._embedding, stage)(first, *call.args, **call.kwargs)
            except (TypeError, OverflowError, INVALID_ARGUMENT):
                self._explain_rejected_arguments(*unflatten_call(call.args, call.kwargs))
                raise


def _was_raised_here(error: BaseException) -> bool:
    """Return whether the innermost Python frame of an error is in this file.

    Then JAX's C++ raised it, not user code.
    """
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback is not None and traceback.tb_frame.f_globals is globals()
