"""Arguments of one call of a program."""

from dataclasses import dataclass, replace
from typing import Any

from bellhop.arguments.flat_tree import flatten_call
from bellhop.arguments.static_arguments import Static
from bellhop.base.types import Args, Kwargs


@dataclass(frozen=True)
class CallArgs:
    """Arguments of one call of a qjit function.

    Made when the user calls or lowers the function; immutable. At first the program's arguments are
    the caller's; later objects for the same call have flattened arguments, or copies on another
    device.

    Attributes:
        static: values of the static arguments.
        caller_arguments: ``(args, kwargs)`` of the dynamic arguments as the caller passed them.
        args: positional arguments for the program: pytrees, or each a ``FlatTree``.
        kwargs: keyword arguments for the program, in the same form.
    """

    static: Static
    caller_arguments: tuple[Args, Kwargs]
    args: Any
    kwargs: Any

    @classmethod
    def from_caller(cls, static: Static, args: Any, kwargs: Any) -> "CallArgs":
        """Create a `CallArgs` whose program arguments are the caller's, unchanged."""
        return cls(static, (args, kwargs), args, kwargs)

    def with_arguments(self, arguments: tuple[Any, Any]) -> "CallArgs":
        """Return a copy with ``(args, kwargs)`` as arguments for the program."""
        return replace(self, args=arguments[0], kwargs=arguments[1])

    @property
    def flattened(self) -> "CallArgs":
        """A copy in which each program argument is a ``FlatTree``: leaves and tree structure."""
        return self.with_arguments(flatten_call(self.args, self.kwargs))
