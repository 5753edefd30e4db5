"""Variables that converted statements assign."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from malt.operators.variables import Undefined, UndefinedReturnValue

from bellhop.arguments.structure_difference import describe_structures
from bellhop.base.source import user_site
from bellhop.errors import AutoGraphError

State = tuple[Any, ...]

_NUMBERS = (bool, int, float, complex, np.generic)


@dataclass(frozen=True)
class Variables:
    """The variables that a converted statement assigns, with functions to read and set them.

    The variables are local variables of the rewritten code, in which AutoGraph defines the
    functions.

    Attributes:
        names: names of the variables.
        get: returns their values as a tuple, in the order of the names.
        set: sets their values from such a tuple.
    """

    names: Sequence[str]
    get: Callable[[], State]
    set: Callable[[State], None]

    def run(self, values: State, body: Callable[..., Any], *args: Any) -> State:
        """Set the variables, run a part of the statement, and return the variables' new values.

        Args:
            values: values of the variables before.
            body: function of the part, which assigns the variables.
            *args: arguments of `body`, such as the element of an iteration.
        """
        self.set(values)
        body(*args)
        return self.get()


class Unset(Undefined):  # type: ignore[misc]
    """Value of a variable that has no value in the compiled program; an error if it is read.

    A variable gets it after a conditional or a loop, for example if only one branch assigns it. The
    error is raised only if the variable is read, since AutoGraph's analysis overestimates which
    variables are read later.

    Args:
        name: the name of the variable.
        error: message of the error, one or more sentences.
    """

    __slots__ = ("_error",)

    def __init__(self, name: str, error: str) -> None:
        super().__init__(name)
        self._error = error

    def read(self) -> Any:
        """Raise the variable's error; rewritten code calls this to read the variable.

        Raises:
            AutoGraphError: always.
        """
        raise AutoGraphError(f"{self._error} The variable is read at {user_site()}.")


def can_be_unset(name: str) -> bool:
    """Return whether a variable may become `Unset`, so that an error is raised if it is read.

    False for ``x[0]``, ``x.y`` and the function's result ``retval_``, for which rewritten code does
    not check for `Unset` at a read.
    """
    return name.isidentifier() and not name.startswith("retval_")


def is_undefined(value: object) -> bool:
    """Return whether a variable's value is AutoGraph's marker for a missing value.

    There is a marker for variables that were not assigned, and a marker for a function's result
    before its ``return``.
    """
    return isinstance(value, Undefined | UndefinedReturnValue)


def describe_variable(name: str, value: object) -> str:
    """Describe a variable for errors, as ``'x'`` or ``the result of the function``."""
    is_result = isinstance(value, UndefinedReturnValue) or name.startswith("retval_")
    return "the result of the function" if is_result else f"'{name}'"


def is_return_flag(name: str) -> bool:
    """Return whether a variable is AutoGraph's flag that the function has returned."""
    return name.startswith("do_return")


def is_array_like(value: object) -> bool:
    """Return whether all leaves of a pytree are arrays or numbers."""
    leaves = jax.tree.leaves(value)
    return all(isinstance(leaf, (jax.Array, np.ndarray, *_NUMBERS)) for leaf in leaves)


def is_same(one: object, other: object) -> bool:
    """Return whether two values are the same object or equal static numbers."""
    if one is other:
        return True
    return isinstance(one, _NUMBERS) and type(one) is type(other) and bool(one == other)


def is_traced(value: object) -> bool:
    """Return whether a value is a tracer or PennyLane's ``MeasurementValue``.

    Python cannot branch on such a value.
    """
    return isinstance(value, jax.core.Tracer) or type(value).__name__ == "MeasurementValue"


class CarriedVariables:
    """The variables of a compiled loop, split into loop-carried arrays and invariants.

    Pytrees of arrays and numbers are carried; the loop must not change other variables.

    Args:
        variables: the variables that the loop's body assigns.
        values: values of the variables before the loop.

    Attributes:
        leaves: leaves of the carried pytrees before the loop, as arrays.
    """

    def __init__(self, variables: Variables, values: State) -> None:
        self._variables = variables
        self._values = values
        self._is_array = [is_array_like(value) for value in values]
        leaves, self._tree = jax.tree.flatten(self._arrays(values))
        self.leaves = [jnp.asarray(leaf) for leaf in leaves]

    def _arrays(self, values: State) -> list[Any]:
        """Return the values of carried variables, and None for each other variable."""
        return [v if is_array else None for v, is_array in zip(values, self._is_array, strict=True)]

    def values(self, leaves: Sequence[Any]) -> State:
        """Return the values of all variables, given the loop-carried arrays.

        Args:
            leaves: the carried arrays, in the order of the attribute `leaves`.
        """
        arrays = jax.tree.unflatten(self._tree, leaves)
        return tuple(
            new if is_array else old
            for old, new, is_array in zip(self._values, arrays, self._is_array, strict=True)
        )

    def find_arrays(self, values: State) -> list[Any]:
        """Return the loop-carried arrays, given the values of all variables after an iteration.

        Variables that had no value before the loop (`Unset`) are not carried, and may be assigned.

        Args:
            values: values of all variables after the iteration.

        Returns:
            the leaves, in the order of the attribute `leaves`.

        Raises:
            AutoGraphError: if the iteration changed a variable that is not carried, or the
                structure of a carried pytree.
        """
        before = zip(self._variables.names, self._values, values, self._is_array, strict=True)
        for name, old, new, is_array in before:
            if isinstance(old, Unset):
                continue
            if not is_array and new is not old:
                kind = type(new if is_undefined(old) else old).__name__
                raise AutoGraphError(
                    f"the loop at {user_site()} changes {describe_variable(name, old)}, which is "
                    f"of type {kind}. Compiled loops support arrays and numbers only. Use a number "
                    "in its place, or change it outside of the loop."
                )
            if is_array and jax.tree.structure(new) != jax.tree.structure(old):
                before_text, after_text = describe_structures(
                    jax.tree.structure(old), jax.tree.structure(new)
                )
                raise AutoGraphError(
                    f"the loop at {user_site()} changes the structure of "
                    f"{describe_variable(name, old)}: {before_text} before, {after_text} after "
                    "an iteration. Use one structure before and in the loop."
                )
        return jax.tree.leaves(self._arrays(values))
