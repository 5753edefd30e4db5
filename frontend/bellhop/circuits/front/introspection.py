"""Support of compiled functions in ``qml.specs`` and similar functions.

Most introspection functions recognize compiled functions by their class name, ``QJIT``.  The
functions patched here recognize only QNodes and Catalyst's class.
"""

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import pennylane as qml
from pennylane.transforms.core import CompilePipeline

from bellhop._pennylane.patches.circuit_introspection import Tool, patch_introspection
from bellhop._pennylane.patches.optimizer_steps import patch_optimizers
from bellhop.circuits.front.optimizers import reject_traced_arguments
from bellhop.circuits.front.specs_levels import count_resources_at_levels, has_several_levels
from bellhop.circuits.front.tapes.tape_execution import apply_tape
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.control_flow.eager_mode import force_unrolling
from bellhop.errors import CompileError
from bellhop.tracing.state import is_tracing

# Arguments of ``qml.execute`` that ``qml.QNode`` accepts too, under the same name.
_QNODE_OPTIONS = {
    *("diff_method", "gradient_kwargs", "mcm_method", "postselect_mode", "max_diff"),
    *("grad_on_execution", "cache", "cachesize", "device_vjp", "executor_backend"),
}


def register_introspection(compiled: type) -> None:
    """Patch PennyLane's introspection functions to accept compiled functions.

    These are ``qml.specs``, ``construct_tape``, ``construct_batch`` and the resource estimator. The
    patches also let ``qml.execute`` and ``qml.iterative_qpe`` run while a program is traced, and
    make PennyLane's optimizers reject traced arguments.

    Args:
        compiled: the class of compiled functions, ``QJIT``; ``circuits`` does not import it.
    """
    patch_introspection(
        functools.partial(_accept_compiled, compiled), _force_unrolled_loops, _execute_in_program
    )
    patch_optimizers(qml.optimize, reject_traced_arguments)


def _accept_compiled(compiled: type, tool: Tool) -> Tool:
    """Wrap an introspection function so that it also accepts a compiled QNode.

    Args:
        compiled: the class of compiled functions.
        tool: PennyLane's introspection function, such as ``qml.specs``, whose first argument is a
            QNode.
    """

    @functools.wraps(tool)
    def run_tool(qnode: Any, *args: Any, **kwargs: Any) -> Any:
        """Call PennyLane's introspection function with the QNode of a compiled function.

        Args:
            qnode: a compiled function, or a QNode or function that ``tool`` accepts.
            args: further arguments of ``tool``.
            kwargs: keyword arguments of ``tool``.

        Returns:
            the result of ``tool`` for the QNode; for ``qml.specs`` of a compiled function at
            several levels, the function that ``count_resources_at_levels`` makes.

        Raises:
            ValueError: if the compiled function does not wrap a QNode directly.
        """
        if not isinstance(qnode, compiled):
            return tool(qnode, *args, **kwargs)
        function: Any = qnode.user_function  # type: ignore[attr-defined]
        if not isinstance(function, qml.QNode):
            raise ValueError(
                f"qml.{tool.__name__} takes a QNode, or a qjit function of a QNode, got {qnode!r}, "
                "which does not wrap a QNode directly. Pass the QNode that the function calls."
            )
        if tool.__name__ == "specs" and has_several_levels(kwargs.get("level")):
            return count_resources_at_levels(tool, function, kwargs["level"])
        return tool(function, *args, **kwargs)

    return run_tool


def _force_unrolled_loops(function: Tool) -> Tool:
    """Wrap ``qml.iterative_qpe`` to unroll its loop while a program is traced.

    The loop's body appends outcomes to a Python list, so it must run once per iteration.

    Args:
        function: ``qml.iterative_qpe``: ``(base, aux_wire, iters) -> list of outcomes``.
    """

    @functools.wraps(function)
    def run_unrolled(base: Any, aux_wire: Any, iters: int) -> Any:
        """Call ``qml.iterative_qpe`` with loops unrolled while a program is traced.

        Raises:
            CompileError: if ``iters``, the number of outcomes, is traced.
        """
        if not is_tracing():
            return function(base, aux_wire, iters)
        if is_dynamic(iters):
            raise CompileError(
                f"qml.{function.__name__}: iters, the number of results, is traced, expected a "
                "static integer. Make iters static: qjit(static_argnums=...)."
            )
        with force_unrolling():
            return function(base, aux_wire, iters)

    return run_unrolled


def _execute_in_program(execute: Tool) -> Tool:
    """Wrap ``qml.execute`` so that its tapes become circuits of a traced program.

    PennyLane's transforms call ``qml.execute``.  Outside of tracing, ``execute``, PennyLane's
    function, is called.
    """

    @functools.wraps(execute)
    def execute_tapes(tapes: Sequence[Any], device: Any, *args: Any, **options: Any) -> Any:
        """Execute tapes: in a program by a QNode for each, else by PennyLane.

        Args:
            tapes: PennyLane's tapes. In a program, the argument ``transform_program`` of
                ``qml.execute`` is applied to them, and its postprocessing to their results.
            device: the PennyLane device.
            args: further positional arguments of ``qml.execute``.
            options: keyword arguments of ``qml.execute``. A program passes the options in
                ``_QNODE_OPTIONS`` to the QNodes. It ignores other options, such as ``interface``,
                since its results are JAX arrays.

        Returns:
            the result of each tape of ``tapes``.
        """
        if not is_tracing():
            return execute(tapes, device, *args, **options)
        arguments = inspect.signature(execute).bind(tapes, device, *args, **options).arguments
        qnode_options = {name: arguments[name] for name in _QNODE_OPTIONS & set(arguments)}
        pipeline = arguments.get("transform_program") or CompilePipeline()

        def run_tape(tape: Any) -> Any:
            """Trace a tape as a circuit, by calling a QNode that applies the tape.

            Returns:
                the values of the tape's measurements.
            """

            def tape_of_execute() -> Any:
                """Apply the tape to the current circuit: the quantum function of the QNode."""
                return apply_tape(tape)

            return qml.set_shots(qml.QNode(tape_of_execute, device, **qnode_options), tape.shots)()

        changed, finish = pipeline(tuple(tapes))
        return finish(tuple(map(run_tape, changed)))

    return execute_tapes
