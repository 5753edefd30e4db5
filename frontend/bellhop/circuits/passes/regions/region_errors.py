"""Errors for constructs that adjoint and controlled functions cannot contain."""

from typing import Any

from bellhop.errors import CompileError


def allocation_error(where: str, op: Any) -> CompileError:
    """Return the error for an allocation in a function that is inverted or controlled.

    This is an adjoint or controlled function, or a circuit that is folded as a whole.

    Args:
        where: the QNode's name and line, which begin the message.
        op: the ``Allocate`` or ``Deallocate`` operation.
    """
    return CompileError(
        f"{where}: {op.name} of wires is not supported in a function that qml.adjoint or qml.ctrl "
        "transforms, or in a folded circuit. Move qml.allocate and qml.deallocate outside of the "
        "function, or leave out the folding."
    )


def measurement_error(where: str, site: str) -> CompileError:
    """Return the error for a measurement in an adjoint or controlled function.

    ``site`` is the ``file:line`` of the mid-circuit measurement.
    """
    return CompileError(
        f"{where}: a measure ({site}) is not supported in a function that qml.adjoint or qml.ctrl "
        "transforms. Measure outside of the function."
    )
