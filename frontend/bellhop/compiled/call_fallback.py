"""Calls of compiled functions that the C++ class ``CompiledCall`` passes to Python."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bellhop._jax.fast_dispatch import ARRAY, UnexecutedProgram
from bellhop._jax.private import (
    AT_TOP_LEVEL,
    INVALID_ARGUMENT,
    VALUE_OF,
    hide_frames,
    is_transformed_eagerly,
    trace_state_clean,
)
from bellhop._jax.slow_dispatch import UNCHECKED, is_checking_results
from bellhop.arguments.static_arguments import NO_STATIC
from bellhop.base.exception_attributes import reveal_exception
from bellhop.base.types import Args, Kwargs
from bellhop.compiled.ahead_of_time import AheadOfTime
from bellhop.compiled.circuit_report import CircuitReport
from bellhop.compiler.compile_timing import RUN, Stopwatch, observers, recordings
from bellhop.compiler.failures import (
    RUN_ERRORS,
    find_python_failure,
    raise_plain_jit_failures,
    strip_xla_context,
)
from bellhop.compiler.host_placement import compute_host_state, prepare_arguments
from bellhop.concurrency.caller_context import save_context
from bellhop.control_flow.eager_mode import is_recording
from bellhop.execution.call_args import CallArgs
from bellhop.execution.cpu_client_pool import RUNS_PER_CLIENT
from bellhop.execution.jit_wrapper import wait_until_finished
from bellhop.execution.pending_results import PendingResults
from bellhop.tracing.state import current_circuit
from bellhop.transformations.inline_trace import trace_inline
from bellhop.transformations.qjit_under_transforms import TransformedJit
from bellhop_runtime import (
    CallbackTable,
    FastCall,
    begin_run,
    end_run,
    profile_clock,
    record_span,
    runs_under_way,
    wait_for_taps,
)

_FLATTEN = jax.tree_util.default_registry.flatten
# Created once: fast calls are compared by the identity of these objects.
_CONTEXTS = AT_TOP_LEVEL + UNCHECKED
_UNLESS = (observers,)
_SPECIAL_RESULTS = PendingResults, UnexecutedProgram


if TYPE_CHECKING:

    class CompiledCall:
        """Base class in C++; untyped, so that type checkers do not accept any attribute."""

else:
    from bellhop_runtime import CompiledCall


class CallInterface(AheadOfTime, CompiledCall):
    """The methods that run when a `QJIT` object is called.

    The C++ base class ``CompiledCall`` implements ``__call__``: if ``_fast`` is set and allows the
    call, it calls the function's ``jax.jit`` with the handle of the callback table before the
    arguments; otherwise it calls ``_call_slow_path``.
    """

    # Argument types of PennyLane autograd.
    _autograd_types: tuple[type[Any], ...] = ()
    _table: CallbackTable
    _transformed: TransformedJit

    def _choose_fast_calls(self) -> None:
        """Update `_fast`, with which C++ calls the ``jax.jit`` without Python code.

        Called after every compilation and every slow call. `_fast` becomes None if all calls need
        Python: before anything is compiled or called, with `verbose`, if a program prints or shows
        progress, or if arguments may have to be copied or converted in Python first.
        """
        programs, runner = self._programs, self._runner
        declared = None if self._declared is None else self._declared.leaves
        is_fast = runner.has_fast_calls and not (
            (self._declared is not None and declared is None)
            or self.compile_options.verbose
            or programs.print
            or programs.print_asynchronously
            or programs.show_progress
        )
        if not is_fast:
            self._fast = None
            return
        defaults, settings = compute_host_state()
        jit, handle = runner.choose_fast_call()
        fast = FastCall(
            jit=jit,
            handle=handle,
            value_of=VALUE_OF,
            contexts=_CONTEXTS,
            defaults=defaults,
            settings=settings,
            unless=_UNLESS,
            others=self._autograd_types,
            special=_SPECIAL_RESULTS,
            declared=declared,
            static_positions=self._static.argnums,
            static_names=self._static.argnames,
            most_runs=RUNS_PER_CLIENT,
            waits=programs.call_runtime,
            begins_here=programs.may_wait,
            arrays=ARRAY,
            masked_arrays=np.ma.MaskedArray,
            flatten=_FLATTEN,
            make_ready=prepare_arguments,
            table=self._table if runner.needs_call_handle else None,
        )
        # Assign once, as other threads may be calling; keep an equal object, since a new one resets
        # caches.
        if self._fast != fast:
            self._fast = fast

    def _call_slow_path(
        self, fast_result: Any, fast_error: BaseException | None, args: Any, kwargs: Any
    ) -> Any:
        """Call the function through Python code, if C++ could not make or finish the call.

        ``CompiledCall`` (C++) calls this method. It handles calls under JAX transformations,
        PennyLane tensors, and reports, and translates exceptions.

        Args:
            fast_result: value that the call from C++ returned, if it needs conversion; None if
                there was no such call, or it raised.
            fast_error: exception of the call from C++, or None.
            args: positional arguments of the user's call.
            kwargs: keyword arguments of the user's call.

        Returns:
            the function's result.

        Raises:
            Exception: of a callback, as the callback raised it, or of XLA.
        """
        if not trace_state_clean():
            return self._call_transformed(args, kwargs)
        if self._autograd_types:
            from bellhop.compiled.autograd_interface import call_from_autograd, is_from_autograd

            if is_from_autograd(args, kwargs):
                return call_from_autograd(self, args, kwargs)
        call = self._split_static(args, kwargs)
        if fast_result is None and fast_error is None:
            self._traced.check_numpy_arrays(call.args, call.kwargs)
        if self._programs.print:
            save_context()
        begin_run()
        try:
            if fast_result is not None or fast_error is not None:
                result = self._runner.run(call, fast_result, fast_error)
            elif self.compile_options.verbose or observers or runs_under_way() > RUNS_PER_CLIENT:
                result = self._run_slow_path(call)
            else:
                result = self._runner.run(call)
            wait_until_finished(result)
            if type(result) is PendingResults:
                result = result.finish((args, kwargs))
            if is_checking_results():
                self._runner.check_results(call, result)
            return result
        except RUN_ERRORS as error:
            failure = find_python_failure(error)
            if failure is None:
                self._traced.check_not_deleted(call.args, call.kwargs, error)
                self._traced.check_not_passed_twice(call.args, call.kwargs, error)
                hide_frames(error)
                raise
        except BaseException as error:
            strip_xla_context(error)
            failure = reveal_exception(error)
            if failure is error:
                self._traced.explain_leaked_arguments(call.args, call.kwargs, error)
                hide_frames(error)
                raise
        finally:
            # Break the reference cycle of exception and frame.
            fast_error = None
            end_run()
            if self._programs.print_asynchronously:
                wait_for_taps()
            if self._programs.show_progress:
                self._finish_bars()
            self._choose_fast_calls()
        try:
            # Raise outside of the handler, so that the handled error is not the context.
            raise failure
        except BaseException:
            hide_frames(failure)
            raise

    def _call_transformed(self, args: Args, kwargs: Kwargs) -> Any:
        """Call the function while JAX traces, as in a program or under ``jax.grad``.

        In a program, ``jax.jit`` or QNode, the surrounding trace includes the user's function.
        Under transformations outside of these, JAX transforms a ``jax.jit`` of the function.

        Raises:
            TypeError: for arguments that are not arrays.
        """
        raise_plain_jit_failures()
        if not is_transformed_eagerly() or current_circuit() is not None or is_recording():
            return trace_inline(self.user_function)(*args, **kwargs)
        static = NO_STATIC
        if self._static:
            static, args, kwargs = self._static.split(args, kwargs)
        try:
            return self._traced.place_result(self._transformed(static, args, kwargs))
        except (TypeError, OverflowError, INVALID_ARGUMENT):
            self._traced.explain_rejected_arguments(args, kwargs)
            raise

    def _run_slow_path(self, call: CallArgs) -> Any:
        """Run a call whose time is measured, or for which JAX's CPU client is too busy.

        Calls are measured for `verbose`, profiles and recordings; a measured call waits for its
        results. Profiles get its duration and circuits. The client is too busy if it executes many
        programs at once: then a spare device runs the program.

        Args:
            call: the arguments of the call.

        Returns:
            the function's result, or `PendingResults`.
        """
        if runs_under_way() > RUNS_PER_CLIENT:
            run = self._runner.run_on_spare_device
        else:
            run = self._runner.run
        if self.compile_options.verbose or recordings.get():
            run = self._measure_stages(run)
        if not observers:
            return run(call)
        begin, failed = profile_clock(), True
        try:
            result = jax.block_until_ready(run(call))
            failed = False
        finally:
            record_span("program", self._traced.name, self._traced.site, begin, failed)
        self._record_circuits(call)
        return result

    def _record_circuits(self, call: CallArgs) -> None:
        """Add the circuits that XLA simulates in a call's program to the active profiles.

        The runtime does not see these circuits, so they are recorded after the program, without
        their durations.
        """
        cached = self._programs.find(call)
        if cached is None:
            return
        for name, _, backend in cached.program.circuits:
            record_span(f"circuit, {backend}", name, "", profile_clock(), False)

    def _measure_stages(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function that runs a call: compile first, then run, and time both.

        Args:
            run: takes the `CallArgs` and returns the result.

        Returns:
            a function with the same argument and result, which also prints reports if `verbose` is
            set.
        """

        def run_measured(call: CallArgs) -> Any:
            """Compile the program of a call, run it, record the times, and return the result.

            The arrays of the result are ready. At the first execution after a compilation that was
            reported, the backend of each circuit is printed.
            """
            with self._report_compilation():
                self._runner.compile(call)
            stopwatch = Stopwatch()
            if not self._is_unseen:
                result = jax.block_until_ready(run(call))
                stopwatch.lap(RUN)
                return result
            with CircuitReport() as report:
                result = jax.block_until_ready(run(call))
                stopwatch.lap(RUN)
            self._is_unseen = False
            for line in report.format_lines():
                print(line, file=self._log)
            return result

        return run_measured

    def _finish_bars(self) -> None:
        """Display the final state of the progress bars of this function's loops."""
        from bellhop.progress_bars.bars import finish_bars

        finish_bars(self._table, is_last=not runs_under_way())
