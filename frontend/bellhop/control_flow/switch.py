"""Compiled choice between branches by an integer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from bellhop.base.public_function import hide_internal_frames, public_function
from bellhop.base.source import name_with_site
from bellhop.control_flow.cond import check_branch
from bellhop.control_flow.scalars import as_integer
from bellhop.control_flow.trace_body import run_branch

Function = Callable[..., Any]
_USAGE = (
    "Write @bellhop.switch(index) above the default branch, @name.branch(case) above each other "
    "branch, and call name(*args)."
)


@public_function(usage=_USAGE)
def switch(index: Any) -> Callable[[Function], "Switch"]:
    """Compile a choice between branches by an integer; only the selected branch runs.

    The interface is the same as in Catalyst. Under ``jax.vmap`` over the index, outside of
    circuits, all branches run.

    Args:
        index: the selected case: an integer, traced or not.

    Returns:
        a decorator for the default branch, which runs if no case equals ``index``. The resulting
        switch has the decorator ``branch(case)`` for all other branches, and is called with the
        arguments of its branches. Inside a QNode the branches may apply gates.

    Raises:
        TypeError: if the index or a case is not an integer, and, at the call, if a branch does not
            take the arguments, or the structures or shapes of the branches' results differ (dtypes
            are promoted by JAX's rules).
        ValueError: if a case has two branches.

    Example:
        >>> import bellhop
        >>> @bellhop.qjit
        ... def value(i):
        ...     @bellhop.switch(i)
        ...     def choice():
        ...         return 0.0
        ...
        ...     @choice.branch(-7)
        ...     def _():
        ...         return 0.5
        ...
        ...     return choice()
        >>> value(-7)
        Array(0.5, dtype=float64)
    """
    value = as_integer("switch: the index", index)
    return lambda default: Switch(value, default)


class Switch:
    """A dictionary of cases and branches; a call runs the branch of the selected case.

    The decorator that ``switch`` returns creates it. It is called with the arguments of its
    branches, and returns the result of the branch that runs.

    Args:
        index: the selected case: an int, or a traced integer.
        default: branch that runs if no case equals `index`.
    """

    def __init__(self, index: Any, default: Function) -> None:
        self._index = index
        self._default = default
        self._cases: dict[int, Function] = {}

    def branch(self, case: int) -> Callable[[Function], "Switch"]:
        """Return a decorator that adds the branch of a case to this switch.

        The decorator returns this switch.

        Args:
            case: value of the index for which the branch runs.

        Raises:
            TypeError: if the case is not an integer.
            ValueError: if the case has a branch already.
        """
        if isinstance(case, bool) or not isinstance(case, int | np.integer):
            raise TypeError(f"switch: a case must be an integer, got {case!r}.")
        if case in self._cases:
            raise ValueError(f"switch: there are two branches for the case {case}. Remove one.")

        def decorate(function: Function) -> "Switch":
            """Add the branch to the switch, and return the switch."""
            self._cases[int(case)] = function
            return self

        return decorate

    def __repr__(self) -> str:
        cases = ", ".join(map(str, self._cases))
        return f"<switch with the cases {cases or 'default'}>"

    @hide_internal_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the branch of the selected case with these arguments; return its result."""
        functions = [*self._cases.values(), self._default]
        which = [*(f"the branch of case {case}" for case in self._cases), "the default branch"]
        names = [
            f"{which_branch} {name_with_site(function)}"
            for which_branch, function in zip(which, functions, strict=True)
        ]
        if isinstance(self._index, int):
            cases = list(self._cases)
            position = cases.index(self._index) if self._index in self._cases else len(cases)
            check_branch("switch", names[position], functions[position], args, kwargs)
            return functions[position](*args, **kwargs)
        for name, function in zip(names, functions, strict=True):
            check_branch("switch", name, function, args, kwargs)
        branch_index: Any = jnp.int32(len(self._cases))
        for position, case in enumerate(self._cases):
            branch_index = jnp.where(self._index == case, jnp.int32(position), branch_index)
        branches = [partial(function, *args, **kwargs) for function in functions]
        return run_branch("switch", branch_index, names, branches)
