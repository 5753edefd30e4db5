"""State that holds inside of ``with`` blocks, in one thread: that of tracing, and of lowering.

state = ScopedState("bellhop_trace_state", TraceState())
with state.changed(is_tracing=True):
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
    """A context variable of a frozen dataclass, each attribute of which is changed by itself.

    Attributes:
        now: returns the state that holds.
    """

    now: Callable[[], S]

    def __init__(self, name: str, outside: S) -> None:
        """Make it.

        Args:
            name: of the context variable.
            outside: the state outside of all ``with`` blocks.
        """
        self._variable = contextvars.ContextVar(name, default=outside)
        self.now = self._variable.get

    @contextlib.contextmanager
    def override(self, **changes: Any) -> Iterator[None]:
        """Change attributes of the state for what runs inside."""
        token = self._set(changes)
        try:
            yield
        finally:
            self._variable.reset(token)

    def change(self, **changes: Any) -> None:
        """Change attributes of the state from here on."""
        self._set(changes)

    def _set(self, changes: dict[str, Any]) -> contextvars.Token[S]:
        return self._variable.set(replace(self._variable.get(), **changes))  # type: ignore[type-var]
