"""Per-thread state of tracing and lowering, set inside of ``with`` blocks.

For example::

    state = ScopedState("bellhop_trace_state", TraceState())
    with state.override(is_tracing=True):
        state.now()      # TraceState(is_tracing=True, ...)
    state.now()          # TraceState()
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class ScopedState(Generic[S]):
    """A context variable with a frozen dataclass as value; ``with`` blocks change its fields.

    There is one for the state of tracing and one for the state of lowering, at module level. Each
    thread has its own value.

    Attributes:
        now: takes no arguments; returns the current value, the dataclass.
    """

    now: Callable[[], S]

    def __init__(self, name: str, outside: S) -> None:
        """Create the context variable.

        Args:
            name: name of the context variable.
            outside: its value outside of all ``with`` blocks.
        """
        self._variable = contextvars.ContextVar(name, default=outside)
        self.now = self._variable.get

    @contextlib.contextmanager
    def override(self, **changes: Any) -> Iterator[None]:
        """Change fields of the value inside of a ``with`` block, and restore them at its end.

        Args:
            **changes: new values by field name; other fields keep their present values.
        """
        token = self._set(changes)
        try:
            yield
        finally:
            self._variable.reset(token)

    def change(self, **changes: Any) -> None:
        """Change fields of the value until the ``with`` block of the innermost `override` ends.

        Args:
            **changes: new values by field name; other fields keep their present values.
        """
        self._set(changes)

    def _set(self, changes: dict[str, Any]) -> contextvars.Token[S]:
        """Change fields of the value; return the token that restores the old value."""
        return self._variable.set(replace(self._variable.get(), **changes))  # type: ignore[type-var]
