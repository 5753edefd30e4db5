"""The functions of JAX's own callbacks, which are changed where a program of ours is traced.

Where JAX runs what was traced, under its transformations or in a plain ``jax.jit``, it carries only
the text of an exception; so that text is a number (``failures``).  Where we do, the exception comes
as it is, around JAX's code, which would log it.  In circuits they make no gates.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bellhop._jax.patches.callbacks_in_programs import change_functions_of_callbacks
from bellhop.compiler.failures import told_by_number
from bellhop.compiler.gates_in_callbacks import WithoutGates, circuit_here
from bellhop.tracing.state import is_tracing


class _Thread(threading.local):
    # Gets what a function of JAX's raises, where a program of ours is calling it.
    failures: list[BaseException] | None = None


_thread = _Thread()


def call_by_us(function: Callable[..., Any], leaves: Sequence[Any]) -> Any:
    """Call what JAX made of a function, and raise the function's own exceptions."""
    failures: list[BaseException] = []
    _thread.failures = failures
    try:
        results = function(*leaves)
    finally:
        _thread.failures = None
    if failures:
        raise failures[0]
    return results


@dataclass(frozen=True)
class FunctionOfJax:
    """The function of one of JAX's callbacks in a program of ours.

    Those of equal functions are equal, as JAX asks of the parameters of equations.

    Attributes:
        function: the user's.
        circuit: the QNode that it is called in, for errors; None outside of one.
    """

    function: Callable[..., Any]
    circuit: str | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        function = self.function
        if self.circuit is not None:
            function = WithoutGates(function, self.circuit)
        failures, _thread.failures = _thread.failures, None
        if failures is None:
            with told_by_number(plain_jit=True):
                return function(*args, **kwargs)
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failures.append(error)
            # Nobody looks at these results; to JAX they are a pytree of arrays.
            return ()


def change_functions() -> None:
    """Change the functions of JAX's callbacks from now on, in programs of ours."""
    change_functions_of_callbacks(_changed)


def _changed(function: Callable[..., Any]) -> Callable[..., Any]:
    # What was traced is bound again under transformations.
    if not is_tracing() or isinstance(function, FunctionOfJax):
        return function
    return FunctionOfJax(function, circuit_here())
