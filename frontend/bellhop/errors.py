"""The exceptions that Bellhop raises."""

import difflib
from collections.abc import Iterable


class CompileError(Exception):
    """A program cannot be compiled; the message names place, fault and remedy.

    Example:
        >>> import bellhop
        >>> bellhop.accelerate(lambda x: float(x))(1.0)
        Traceback (most recent call last):
        bellhop.errors.CompileError: accelerate: '<lambda>' (...) cannot be traced by jax.jit: ...
    """


class NotCompiledError(CompileError, AttributeError):
    """An attribute of a compiled function is read before there is a program.

    It is an ``AttributeError``, so that ``hasattr`` returns False.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x)
        >>> hasattr(f, "mlir")
        False
        >>> f.mlir
        Traceback (most recent call last):
        bellhop.errors.NotCompiledError: <qjit <lambda>> has not been compiled: call it first, ...
    """


class DifferentiableCompileError(CompileError):
    """A program cannot be differentiated, or not in this mode or to this order.

    Attributes:
        where: name of the differentiated function, if the message begins with it; otherwise empty.

    Example:
        >>> import bellhop, math
        >>> cube_root = bellhop.pure_callback(math.cbrt, float)
        >>> bellhop.grad(cube_root)(8.0)
        Traceback (most recent call last):
        bellhop.errors.DifferentiableCompileError: pure_callback 'cbrt' ... no derivative...
    """

    where: str = ""


class CircuitError(RuntimeError):
    """A circuit failed at run time; the message names the QNode, its line and the fault.

    Compiled programs raise it, including plain ``jax.jit`` programs; later calls work.

    Example:
        >>> import bellhop, pennylane as qml
        >>> @bellhop.qjit
        ... @qml.qnode(qml.device("lightning.qubit", wires=2))
        ... def circuit(wire):
        ...     qml.X(wire)
        ...     return qml.probs()
        >>> circuit(2)
        Traceback (most recent call last):
        bellhop.errors.CircuitError: the QNode 'circuit' (...): ... wire 2 is not in the circuit...
    """


class AutoGraphError(Exception):
    """AutoGraph cannot convert the Python control flow of a function.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit(autograph=True)
        ... def f(x):
        ...     if x > 0:
        ...         y = 1.0
        ...     return y
        >>> f(1.0)
        Traceback (most recent call last):
        bellhop.errors.AutoGraphError: ...
    """


class CallbackException(Exception):  # noqa: N818, a name that is known from host_callback
    """Tapped functions raised exceptions; the last exception is the cause.

    Attributes:
        exceptions: the exceptions in order; if there are very many, the first ones and the last.

    Example:
        >>> import bellhop, jax
        >>> jax.jit(lambda x: bellhop.tap(lambda x: 1 / 0, x))(1.0)
        >>> bellhop.barrier_wait()
        Traceback (most recent call last):
        bellhop.errors.CallbackException: a tapped function raised; this was ZeroDivisionError: ...
    """

    exceptions: tuple[BaseException, ...] = ()


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return a sentence that offers the most similar of some names, or an empty string.

    Args:
        name: an unknown name.
        names: the known names.

    Returns:
        ``" Did you mean 'known'?"``, or ``""`` where no known name is similar.
    """
    similar = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean '{similar[0]}'?" if similar else ""


def format_value(value: object) -> str:
    """Format a value for an error message: its ``repr``, cut after 160 characters.

    Integers above 256 bits give ``<int of N bits>``, since Python may refuse to print their digits.
    """
    if isinstance(value, int) and value.bit_length() > 256:
        # Python raises for the decimal digits of longer integers.
        return f"<int of {value.bit_length()} bits>"
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}..."
