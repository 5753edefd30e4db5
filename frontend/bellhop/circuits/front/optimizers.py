"""Errors for PennyLane's optimizers in traced programs.

An optimizer of ``qml.optimize`` changes the arguments with ``requires_grad``, and returns
other arguments unchanged. A traced value has no ``requires_grad``.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax

from bellhop.base.source import user_site
from bellhop.errors import CompileError
from bellhop.tracing.state import is_tracing


def reject_traced_arguments(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method of a PennyLane optimizer to reject arguments that it cannot train.

    While a program is traced, the wrapper raises an error for traced arguments, and for several
    trained arguments without ``grad_fn``. Otherwise it calls the method.

    Args:
        name: ``Class.method``, for the error.
        method: the method, such as ``step(self, objective_fn, *args, grad_fn=None, **kwargs)``, or
            the function of a static method.
    """
    signature = inspect.signature(method)
    names = [parameter for parameter in signature.parameters if parameter != "self"]
    # The first parameter is the objective function or a gradient. Keyword arguments of the
    # objective function are not trainable.
    checked = set(names[1:]) - {"kwargs"}
    computes_gradient = "grad_fn" in signature.parameters

    @functools.wraps(method)
    def run_method(*args: Any, **kwargs: Any) -> Any:
        """Call the method of the optimizer, if none of its arguments is traced.

        Args:
            *args: the optimizer, the objective function, and the arguments to optimize.
            **kwargs: options of the optimizer, and keyword arguments of the objective function.

        Raises:
            CompileError: if an argument that the optimizer would train is traced; or if there are
                several such arguments and no ``grad_fn``, as ``qml.grad`` in a program
                differentiates the first argument only.
        """
        if is_tracing():
            arguments = signature.bind(*args, **kwargs).arguments
            # An inherited method gets the name of the user's class.
            optimizer = arguments.get("self")
            shown = f"{type(optimizer).__name__}.{method.__name__}" if optimizer else name
            values = [value for key, value in arguments.items() if key in checked]
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
                raise CompileError(
                    f"{user_site()}: an argument of {shown} is traced, expected an array with "
                    "requires_grad. PennyLane's optimizers change only arguments with "
                    "requires_grad, and traced values have none. Use optax in the program, or "
                    "x - stepsize * bellhop.grad(circuit)(x); or call the optimizer outside of "
                    "the program, with the compiled function: opt.step(bellhop.qjit(circuit), x)."
                )
            objective_args = arguments.get("args", ())
            trained = [
                number
                for number, value in enumerate(objective_args)
                if getattr(value, "requires_grad", False)
            ]
            if computes_gradient and len(trained) > 1 and arguments.get("grad_fn") is None:
                raise CompileError(
                    f"{user_site()}: {shown} trains {len(trained)} arguments while a program is "
                    f"traced, expected one. Pass grad_fn=bellhop.grad(circuit, argnums={trained}), "
                    "or call the optimizer outside of the program."
                )
        return method(*args, **kwargs)

    return run_method
