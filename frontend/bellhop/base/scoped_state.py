"""Per-thread state of tracing and lowering, set inside of ``with`` blocks.

state = ScopedState("bellhop_trace_state", TraceState()) with state.override(is_tracing=True):
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
    """A context variable that holds a frozen dataclass, whose fields are overridden.

    There is one for the state of tracing and one for the state of lowering, at module level. Each
    thread has its own value.

    Attributes:
        now: returns the current state, the dataclass.
    """

    now: Callable[[], S]

    def __init__(self, name: str, outside: S) -> None:
        """Create the context variable.

        Args:
            name: name of the context variable.
            outside: state outside of all ``with`` blocks.
        """
        self._variable = contextvars.ContextVar(name, default=outside)
        self.now = self._variable.get

    @contextlib.contextmanager
    def override(self, **changes: Any) -> Iterator[None]:
        """Override fields of the current state, by keyword, inside of a ``with`` block.

        Other fields keep their present values.
        """
        token = self._set(changes)
        try:
            yield
        finally:
            self._variable.reset(token)

    def change(self, **changes: Any) -> None:
        """Set fields of the current state, by keyword, until the present `override` ends.

        Other fields keep their present values.
        """
        self._set(changes)

    def _set(self, changes: dict[str, Any]) -> contextvars.Token[S]:
        return self._variable.set(replace(self._variable.get(), **changes))  # type: ignore[type-var]
