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
from bellhop.circuits.front.specs_levels import count_resources_at_levels, has_several_levels
from bellhop.circuits.front.tapes.tape_execution import apply_tape
from bellhop.circuits.ir.wires import is_dynamic
from bellhop.control_flow.eager_mode import force_unrolling
from bellhop.errors import CompileError
from bellhop.tracing.state import is_tracing

# Options with the same name in ``qml.execute`` and ``qml.QNode``.
_QNODE_OPTIONS = {"diff_method", "gradient_kwargs", "mcm_method", "postselect_mode"}


def register_introspection(compiled: type) -> None:
    """Patch PennyLane's introspection functions to accept compiled functions.

    Also lets ``qml.execute`` and iterative phase estimation run while a program is traced.

    Args:
        compiled: the class of compiled functions.
    """
    patch_introspection(
        functools.partial(_accept_compiled, compiled), _force_unrolled_loops, _execute_in_program
    )


def _accept_compiled(compiled: type, tool: Tool) -> Tool:
    """Wrap an introspection function to unwrap a compiled QNode.

    Args:
        compiled: the class of compiled functions.
        tool: PennyLane's introspection function of a QNode.
    """

    @functools.wraps(tool)
    def run_tool(qnode: Any, *args: Any, **kwargs: Any) -> Any:
        """Call ``tool`` with the QNode of a compiled function."""
        if not isinstance(qnode, compiled):
            return tool(qnode, *args, **kwargs)
        function: Any = qnode.user_function  # type: ignore[attr-defined]
        if not isinstance(function, qml.QNode):
            raise ValueError(
                f"qml.{tool.__name__} takes a QNode, or a qjit function of a QNode; {qnode!r} does "
                "not wrap a QNode directly. Pass the QNode that it calls."
            )
        if tool.__name__ == "specs" and has_several_levels(kwargs.get("level")):
            return count_resources_at_levels(tool, function, kwargs["level"])
        return tool(function, *args, **kwargs)

    return run_tool


def _force_unrolled_loops(function: Tool) -> Tool:
    """Wrap a PennyLane function to unroll loops that append to a Python list.

    Args:
        function: ``(base, aux_wire, iters) -> list``.
    """

    @functools.wraps(function)
    def run_unrolled(base: Any, aux_wire: Any, iters: int) -> Any:
        """Call ``function`` with loops unrolled in a program; ``iters`` must be static."""
        if not is_tracing():
            return function(base, aux_wire, iters)
        if is_dynamic(iters):
            raise CompileError(
                f"qml.{function.__name__}: iters is traced, expected a static integer, as it is "
                "the number of results. Make it static: qjit(static_argnums=...)."
            )
        with force_unrolling():
            return function(base, aux_wire, iters)

    return run_unrolled


def _execute_in_program(execute: Tool) -> Tool:
    """Wrap ``qml.execute`` to trace its tapes as circuits while a program is traced."""

    @functools.wraps(execute)
    def execute_tapes(tapes: Sequence[Any], device: Any, *args: Any, **options: Any) -> Any:
        """Call a QNode for each transformed tape, and combine the results."""
        if not is_tracing():
            return execute(tapes, device, *args, **options)
        arguments = inspect.signature(execute).bind(tapes, device, *args, **options).arguments
        qnode_options = {name: arguments[name] for name in _QNODE_OPTIONS & set(arguments)}
        pipeline = arguments.get("transform_program") or CompilePipeline()

        def run_tape(tape: Any) -> Any:
            def tape_of_execute() -> Any:
                return apply_tape(tape)

            return qml.set_shots(qml.QNode(tape_of_execute, device, **qnode_options), tape.shots)()

        changed, finish = pipeline(tuple(tapes))
        return finish(tuple(map(run_tape, changed)))

    return execute_tapes
