"""The exceptions that Bellhop raises."""

import difflib
from collections.abc import Iterable


class CompileError(Exception):
    """Raised if a program cannot be compiled; names place, fault and remedy.

    Example:
        >>> import bellhop
        >>> bellhop.accelerate(lambda x: float(x))(1.0)
        Traceback (most recent call last):
        bellhop.errors.CompileError: accelerate of '<lambda>' (...) cannot be traced by jax.jit: ...
    """


class NotCompiledError(CompileError, AttributeError):
    """Raised if an attribute of a qjit function is read before it has a program.

    The function is compiled at its first call. The error is an ``AttributeError``, so
    that ``hasattr`` returns False.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x)
        >>> hasattr(f, "mlir")
        False
        >>> f.mlir
        Traceback (most recent call last):
        bellhop.errors.NotCompiledError: <qjit <lambda>> has not been compiled: call it first, ...
    """


class ResultTypeError(TypeError):
    """Raised if a callback's result type is missing, or does not determine shapes and dtypes.

    Example:
        >>> import bellhop
        >>> bellhop.pure_callback(lambda x: x)
        Traceback (most recent call last):
        bellhop.errors.ResultTypeError: callback '<lambda>' (...) declares no result type. ...
    """


class DifferentiableCompileError(CompileError):
    """Raised if a program has no derivative, or not in this mode or of this order.

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
    """Raised if a circuit fails when the program runs; names the QNode and the fault.

    Plain ``jax.jit`` programs raise it too. The program can be called again afterwards.

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
    """Raised if AutoGraph cannot convert the Python control flow of a function.

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
    """Raised by ``barrier_wait`` if tapped functions raised exceptions before.

    The last of these exceptions is its ``__cause__``.

    Attributes:
        exceptions: the exceptions in order; the first and the last only if there are very many.

    Example:
        >>> import bellhop, jax
        >>> jax.jit(lambda x: bellhop.tap(lambda x: 1 / 0, x))(1.0)
        >>> bellhop.barrier_wait()
        Traceback (most recent call last):
        bellhop.errors.CallbackException: a tapped function raised; this was ZeroDivisionError: ...
    """

    exceptions: tuple[BaseException, ...] = ()


def unknown_option_error(
    where: str, name: str, names: Iterable[str], advice: str = ""
) -> TypeError:
    """Make the error for an option that a public function does not have.

    The error lists the known options, and ends with the advice or the most similar option.

    Args:
        where: name of the public function.
        name: the unknown option.
        names: the known options.
        advice: a sentence with the remedy, for an option of another library; may be empty.
    """
    known = list(names)
    options_text = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known) or 'none'}"
    remedy = f" {advice}" if advice else suggest_name(name, known)
    return TypeError(f"{where} has no option '{name}'; {options_text}.{remedy}")


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Suggest the known name that is most similar to an unknown name, for an error.

    Returns:
        ``" Did you mean 'known'?"``, or ``""`` if no known name is similar.
    """
    similar = difflib.get_close_matches(name, list(names), n=1)
    return f" Did you mean '{similar[0]}'?" if similar else ""


def format_value(value: object) -> str:
    """Format a value for an error message: its ``repr``, cut after 160 characters.

    A cut ``repr`` ends in ``...``. Integers above 256 bits give ``<int of N bits>``, since Python
    may refuse to print their digits.
    """
    if isinstance(value, int) and value.bit_length() > 256:
        # Python raises for the decimal digits of longer integers.
        return f"<int of {value.bit_length()} bits>"
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}..."
