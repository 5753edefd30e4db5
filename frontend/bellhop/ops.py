"""Meaning of ``qml.*`` functions in compiled programs.

PennyLane looks up the names of this module through the entry point ``bellhop.ops``.
"""

import functools
from collections.abc import Sequence
from typing import Any

from bellhop.base.public_function import public_function
from bellhop.control_flow.cond import cond
from bellhop.control_flow.for_loop import for_loop
from bellhop.control_flow.operator_args import dequeue_arguments
from bellhop.control_flow.while_loop import while_loop
from bellhop.measure import measure
from bellhop.tracing.state import current_circuit
from bellhop.transformations.grad import grad, jacobian, value_and_grad
from bellhop.transformations.jvp_vjp import jvp, vjp
from bellhop.transformations.vmap import vmap

__all__ = [
    "adjoint",
    "cond",
    "ctrl",
    "for_loop",
    "grad",
    "jacobian",
    "jvp",
    "measure",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


@public_function
def adjoint(fn: Any, lazy: bool = True) -> Any:
    """Return the adjoint of an operation, or of a function that applies operations.

    Args:
        fn: an operation, a class of operations, or a quantum function.  In a compiled circuit the
            function may contain loops and conditionals.  Values that a loop with a dynamic trip
            count carries are recomputed for each iteration of the reversed loop.
        lazy: whether to return a symbolic ``Adjoint`` rather than a simplified operation; ignored
            for a function in a compiled circuit.

    Returns:
        the adjoint operation, or a function with the arguments of ``fn``. In a compiled circuit its
        result has attributes ``wires``, the wires that were acted on, and ``operation``, the
        applied operation, or None if there are several.

    Raises:
        CompileError: if the function contains measurements.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @qml.qnode(qml.device("lightning.qubit", wires=3))
        ... def circuit(x):
        ...     def layer():
        ...         bellhop.for_loop(0, 3)(lambda i: qml.RX(x * i, wires=i) and None)()
        ...     layer()
        ...     bellhop.adjoint(layer)()
        ...     return qml.expval(qml.Z(2))
        >>> circuit(0.3)
        Array(1., dtype=float64)

    Same interface as ``adjoint`` of PennyLane and Catalyst.
    """
    from pennylane.ops.op_math.adjoint import create_adjoint_op

    circuit = current_circuit()
    if circuit is None or not _is_function(fn):
        return create_adjoint_op(fn, lazy)
    from bellhop.circuits.front.adjoint_ctrl import apply_adjoint

    @functools.wraps(fn)
    def inverse(*args: Any, **kwargs: Any) -> Any:
        """Apply the adjoint of the operations that `fn` applies for these arguments.

        `adjoint` returns this function. In a compiled circuit, the operations of `fn` are recorded,
        and their adjoints are applied in reverse order; operators among the arguments are not
        applied themselves. Elsewhere PennyLane's adjoint is used.
        """
        circuit = current_circuit()
        if circuit is None:
            return adjoint(fn, lazy)(*args, **kwargs)
        dequeue_arguments(args, kwargs)
        return apply_adjoint(circuit.flush_queue("adjoint"), lambda: fn(*args, **kwargs))

    return inverse


@public_function
def ctrl(
    op: Any,
    control: Any,
    control_values: Any = None,
    work_wires: Any = None,
    work_wire_type: str = "borrowed",
) -> Any:
    """Return a controlled operation, or control a function that applies operations.

    Args:
        op: an operation, a class of operations, or a quantum function.  In a compiled circuit the
            function may contain loops and conditionals.
        control: a control wire, or a sequence of control wires.
        control_values: a boolean for each control wire, or one boolean for a single wire; None for
            true. In a compiled circuit they may be traced.
        work_wires: wires that decompositions may use.
        work_wire_type: ``"borrowed"`` or ``"zeroed"``, the state of the work wires.

    Returns:
        the controlled operation, or a function with the arguments of ``op``. In a compiled circuit
        its result has attributes ``wires``, the wires that were acted on, and ``operation``, the
        applied operation, or None if there are several.

    Raises:
        CompileError: if the function contains measurements.
        ValueError: if the numbers of control values and control wires differ.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @qml.qnode(qml.device("lightning.qubit", wires=2))
        ... def circuit():
        ...     qml.X(0)
        ...     bellhop.ctrl(lambda: qml.X(1), control=0)()
        ...     return qml.expval(qml.Z(1))
        >>> circuit()
        Array(-1., dtype=float64)

    Same interface as ``ctrl`` of PennyLane and Catalyst.
    """
    from pennylane.ops.op_math.controlled import create_controlled_op

    wires, values = (
        _count_controls(control, default=1),
        _count_controls(control_values, default=None),
    )
    if values is not None and values != wires:
        raise ValueError(
            f"ctrl: there are {wires} control wires and {values} control_values. Pass a value for "
            "each wire."
        )
    circuit = current_circuit()
    known, split = control_values, None
    flips: Sequence[Any] = ()
    if circuit is not None:
        from bellhop.circuits.front.traced_controls import SplitControlValues

        split = SplitControlValues.from_values(control, control_values)
        known, flips = split.static, split.flips
    if flips and isinstance(op, type):
        options = {"work_wires": work_wires, "work_wire_type": work_wire_type}
        return lambda *args, **kwargs: ctrl(op(*args, **kwargs), control, control_values, **options)
    if circuit is None or not _is_function(op):
        made = create_controlled_op(
            op,
            control,
            control_values=known,
            work_wires=work_wires,
            work_wire_type=work_wire_type,
        )
        return made if split is None else split.surround(made)
    from bellhop.circuits.front.adjoint_ctrl import apply_controlled

    @functools.wraps(op)
    def controlled(*args: Any, **kwargs: Any) -> Any:
        """Apply the operations that `op` applies for these arguments, each one controlled.

        `ctrl` returns this function. In a compiled circuit, the operations of `op` are recorded and
        then controlled; conditional flips of the control wires, before and after the operations,
        implement traced control values. Elsewhere PennyLane's ``ctrl`` is used.
        """
        circuit = current_circuit()
        if circuit is None:
            whole = ctrl(op, control, control_values, work_wires, work_wire_type)
            return whole(*args, **kwargs)
        dequeue_arguments(args, kwargs)
        recording = circuit.flush_queue("ctrl")
        recording.apply(flips)
        applied = apply_controlled(recording, control, known, lambda: op(*args, **kwargs))
        recording.apply(flips)
        return applied

    return controlled


def _count_controls(value: Any, *, default: int | None) -> int | None:
    """Count the control wires or control values that a user passed to `ctrl`.

    Args:
        value: a sequence, or a single wire or value.
        default: result for a single value: a string, None, or a value without a length.
    """
    if isinstance(value, str):
        return default
    try:
        return len(value)
    except TypeError:
        return default


def _is_function(value: Any) -> bool:
    """Return whether a value is a quantum function, not an operation or its class."""
    import pennylane as qml

    is_class = isinstance(value, type) and issubclass(value, qml.operation.Operator)
    return callable(value) and not is_class and not isinstance(value, qml.operation.Operator)
