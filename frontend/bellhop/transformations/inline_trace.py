"""Tracing of user functions as part of a Bellhop program."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from bellhop._jax.patches.callbacks_in_programs import wrap_jax_callbacks
from bellhop._jax.patches.loop_hoisting import keep_effects_in_loops
from bellhop.compiler.jax_callbacks import wrap_for_programs
from bellhop.tracing.calls_in_operations import forbid_calls_in_operations
from bellhop.tracing.measurement_operands import reject_operand, reject_unary_operand
from bellhop.tracing.repeated_calls import drop_repeated_effects
from bellhop.tracing.state import is_converting, override_trace_state
from bellhop.tracing.traced_formatting import explain_formatting


def trace_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that JAX can trace the QNodes, loops and callbacks in it.

    ``qjit``, ``grad``, ``vmap`` etc. trace the user's function through this wrapper. It installs
    Bellhop's patches of JAX and PennyLane, by which a QNode call binds a primitive, and sets a
    context variable that says that tracing is in progress. If autograph is on, the function is
    converted.

    Args:
        function: the user's function.

    Returns:
        a function with the same arguments and result.
    """

    def run(*args: Any, **kwargs: Any) -> Any:
        """Call the user's function with Bellhop's patches, and with autograph if it is on."""
        with _install_patches(), override_trace_state(is_tracing=True):
            if not is_converting():
                return function(*args, **kwargs)
            # Imported late, since it imports diastatic-malt.
            from bellhop.autograph.converted_calls import call_converted

            return call_converted(function, args, kwargs)

    return run


def _install_patches() -> contextlib.AbstractContextManager[None]:
    """Install the patches of JAX and, if it is imported, PennyLane that tracing needs.

    Most patches are installed once and stay.

    Returns:
        a context manager for the ``with`` block in which the function is traced: PennyLane's
        operations accept lists of tracers there.
    """
    keep_effects_in_loops()
    drop_repeated_effects()
    forbid_calls_in_operations()
    wrap_jax_callbacks(wrap_for_programs)
    explain_formatting()
    if "pennylane" not in sys.modules:
        return contextlib.nullcontext()
    from bellhop._pennylane.patches.measurement_operators import patch_measurement_operators
    from bellhop._pennylane.patches.nested_lists import allow_tracer_lists
    from bellhop._pennylane.patches.thread_queues import use_thread_queues
    from bellhop.circuits.front.interception import intercept_qnodes

    intercept_qnodes()
    process_type = sys.modules["pennylane.measurements"].MeasurementProcess
    patch_measurement_operators(process_type, reject_operand, reject_unary_operand)
    use_thread_queues()
    return allow_tracer_lists()
