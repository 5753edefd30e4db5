"""Compiled conditionals."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import jax.numpy as jnp

from bellhop.arguments.accepted_arguments import check_parameters
from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import describe_derived_function, function_name, name_with_site
from bellhop.base.types import Args, Kwargs
from bellhop.control_flow.eager_mode import is_outcome
from bellhop.control_flow.operator_args import dequeue_arguments
from bellhop.control_flow.scalars import as_predicate
from bellhop.control_flow.trace_body import run_branch
from bellhop.errors import format_value
from bellhop.tracing.state import is_tracing

Function = Callable[..., Any]
P = ParamSpec("P")
R = TypeVar("R")
_USAGE = (
    "Call the conditional with the arguments of its branches: "
    "bellhop.cond(pred, true_fn, false_fn)(*args)."
)


@overload
def cond(
    pred: Any,
    true_fn: Callable[P, R],
    false_fn: Callable[P, R] | None = None,
    elifs: Sequence[tuple[Any, Callable[P, R]]] = (),
) -> "Conditional[P, R]": ...
@overload
def cond(pred: Any) -> Callable[[Callable[P, R]], "Conditional[P, R]"]: ...
@public_function(usage=_USAGE)
def cond(
    pred: Any,
    true_fn: Function | None = None,
    false_fn: Function | None = None,
    elifs: Sequence[tuple[Any, Function]] = (),
) -> Any:
    """Compile a conditional, which runs only the selected branch.

    The interface is the same as in PennyLane and Catalyst. Under ``jax.vmap`` over a condition,
    outside of circuits, all branches run. Outside of programs Python runs the selected branch.

    Args:
        pred: a bool or a number, traced or not, or a mid-circuit outcome; Python decides a static
            condition during tracing.
        true_fn: branch for a true ``pred``; None to use `cond` as a decorator.
        false_fn: branch if no condition is true; may be omitted if the branches return nothing.
        elifs: pairs of a further condition and its branch, tested in order if ``pred`` is false.

    Returns:
        the conditional, which is called with the arguments of its branches and returns the selected
        branch's result; None if no condition is true and there is no ``false_fn``. Without
        ``true_fn``, a decorator for the first branch: the resulting conditional has the decorators
        ``else_if(pred)`` and ``otherwise`` for further branches. Inside a QNode the branches may
        apply gates.

    Raises:
        TypeError: at the call, if a branch does not take the arguments, the structures or shapes of
            the branches' results differ (dtypes are promoted by JAX's rules), or a condition is not
            a scalar. For a function as ``pred``, and for ``false_fn`` or ``elifs`` without
            ``true_fn``.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def absolute(x):
        ...     return bellhop.cond(x < 0, lambda: -x, lambda: x)()
        >>> absolute(-2.5)
        Array(2.5, dtype=float64)

        >>> @bellhop.qjit
        ... def sign(x):
        ...     @bellhop.cond(x < 0)
        ...     def value():
        ...         return -1
        ...
        ...     @value.else_if(x > 0)
        ...     def _():
        ...         return 1
        ...
        ...     @value.otherwise
        ...     def _():
        ...         return 0
        ...
        ...     return value()
        >>> sign(0.3)
        Array(1, dtype=int64)
    """
    if callable(pred):
        raise TypeError(
            f"cond: got the function '{function_name(pred)}', expected a condition. Call cond with "
            "the condition first: @bellhop.cond(x > 0)."
        )
    if true_fn is None:
        if false_fn is not None or elifs:
            raise TypeError(
                f"cond: got {'elifs' if false_fn is None else 'false_fn'} without true_fn. Pass "
                "true_fn too, or pass no functions and decorate them: @bellhop.cond(pred), "
                "@name.else_if(pred) and @name.otherwise."
            )
        return lambda function: Conditional(pred, function)
    if not isinstance(elifs, Sequence) or not all(map(_is_pair, elifs)):
        raise TypeError(
            f"cond: elifs is {format_value(elifs)}, expected pairs (condition, branch), as in "
            f"elifs=[(x > 1, f)]. {_USAGE}"
        )
    conditional: Conditional[..., Any] = Conditional(pred, true_fn)
    for condition, function in elifs:
        conditional.else_if(condition)(function)
    if false_fn is not None:
        conditional.otherwise(false_fn)
    return conditional


class Conditional(Generic[P, R]):
    """A list of conditions and branches; a call runs the branch of the first true condition.

    ``cond`` returns it. It is called with the arguments of its branches, and returns the result of
    the branch that runs. If all conditions are static, Python chooses the branch while tracing. If
    a condition is PennyLane's ``MeasurementValue``, the branches' gates are recorded conditionally,
    and the call returns None.

    Args:
        pred: the first condition: a bool, a number, or PennyLane's ``MeasurementValue``.
        true_fn: the branch of the first condition.
    """

    def __init__(self, pred: Any, true_fn: Callable[P, R]) -> None:
        self._branches: list[tuple[Any, Function]] = [(pred, true_fn)]
        self._otherwise: Function | None = None

    def else_if(self, pred: Any) -> Callable[[Callable[P, R]], "Conditional[P, R]"]:
        """Return a decorator that adds a branch to this conditional.

        The decorator returns this conditional.

        Args:
            pred: condition, tested if all earlier conditions are false.
        """

        def decorate(function: Callable[P, R]) -> "Conditional[P, R]":
            """Add the branch to the conditional, and return the conditional."""
            self._branches.append((pred, function))
            return self

        return decorate

    def otherwise(self, function: Callable[P, R]) -> "Conditional[P, R]":
        """Set the branch that runs if no condition is true; return this conditional."""
        self._otherwise = function
        return self

    def __repr__(self) -> str:
        functions = [function for _, function in self._branches]
        if self._otherwise is not None:
            functions.append(self._otherwise)
        names = ", ".join(f"'{function_name(function)}'" for function in functions)
        return f"<cond with the branches {names}>"

    @hide_internal_frames
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the branch of the first true condition with these arguments; return its result."""
        dequeue_arguments(args, kwargs)
        if any(is_outcome(pred) for pred, _ in self._branches):
            self._record(args, kwargs)
            return cast(R, None)
        preds: list[Any] = []
        names: list[str] = []
        functions: list[Function] = []
        final: tuple[str, Function] | None = None
        for number, (value, function) in enumerate(self._branches):
            pred = as_predicate(describe_derived_function("cond", function), value)
            which = "the first branch" if number == 0 else f"branch {number + 1} (else_if)"
            name = f"{which} {name_with_site(function)}"
            if pred is True:
                final = name, function
                break
            if pred is not False:
                preds.append(pred)
                names.append(name)
                functions.append(function)
        else:
            other = self._otherwise
            final = (f"otherwise {name_with_site(other)}", other) if other is not None else None
        for name, function in [*zip(names, functions, strict=True), *([final] if final else [])]:
            check_branch("cond", name, function, args, kwargs)
        if not preds:
            return cast(R, None if final is None else final[1](*args, **kwargs))
        # Without an else there is a branch that does nothing, and returns nothing.
        name, function = ("the missing otherwise branch (false_fn)", _nothing)
        if final is not None:
            name, function = final
        index: Any = jnp.int32(len(preds))
        for number in reversed(range(len(preds))):
            index = jnp.where(preds[number], jnp.int32(number), index)
        branches = [partial(branch, *args, **kwargs) for branch in (*functions, function)]
        return cast(R, run_branch("cond", index, [*names, name], branches))

    def _record(self, args: Args, kwargs: Kwargs) -> None:
        """Append the branches' gates, conditioned on mid-circuit outcomes, to a PennyLane tape.

        Used if a condition is PennyLane's ``MeasurementValue``. A tape has no else-if, so the gates
        of each branch get the combined condition that its condition is true and all earlier
        conditions are false.
        """
        previous: Any = None
        for pred, function in [*self._branches, (True, self._otherwise)]:
            if function is None or not (is_outcome(pred) or pred):
                continue
            check_branch("cond", f"the branch {name_with_site(function)}", function, args, kwargs)
            if not is_outcome(pred):
                # The condition is static, so this is the last branch that may run.
                if previous is None:
                    function(*args, **kwargs)
                else:
                    _record_if(previous, function, args, kwargs)
                return
            _record_if(pred if previous is None else previous & pred, function, args, kwargs)
            previous = ~pred if previous is None else previous & ~pred


def check_branch(construct: str, name: str, function: Function, args: Args, kwargs: Kwargs) -> None:
    """Raise a `TypeError` if a branch does not accept the arguments of the call.

    Args:
        construct: name of the construct, such as ``cond``, for the error.
        name: the branch with its line, for the error.
        function: the branch.
        args: positional arguments of the conditional's call.
        kwargs: keyword arguments of the conditional's call.
    """
    keywords = "".join(f", {key}=" for key in kwargs)
    passed = f"the arguments with which the {construct} is called{keywords}"
    check_parameters(construct, name, function, len(args), passed, kwargs)


def _record_if(outcome: Any, function: Function, args: Args, kwargs: Kwargs) -> None:
    """Append a branch's gates to the active tape, conditioned on an outcome.

    Args:
        outcome: PennyLane's ``MeasurementValue``.
        function: the branch.
        args: positional arguments of the branch.
        kwargs: keyword arguments of the branch.

    Raises:
        TypeError: in a Bellhop program, if the branch contains a measurement; elsewhere PennyLane
            checks the branch.
    """
    import pennylane as qml

    if not is_tracing():
        qml.cond(outcome, function)(*args, **kwargs)
        return
    # During tracing PennyLane's ``cond`` calls this module, so build the operations here.
    with qml.queuing.AnnotatedQueue() as queue:
        function(*args, **kwargs)
    operations, measurements, *_ = qml.queuing.process_queue(queue)
    if measurements:
        raise TypeError(
            "cond: a branch on a mid-circuit outcome contains the measurement "
            f"{measurements[0]}. Return measurements from the quantum function."
        )
    for operation in operations:
        qml.ops.Conditional(outcome, operation)


def _is_pair(value: object) -> bool:
    """Return whether a value is a sequence of two items, of which the second is callable."""
    return isinstance(value, Sequence) and len(value) == 2 and callable(value[1])


def _nothing(*_: object, **__: object) -> None:
    return None
