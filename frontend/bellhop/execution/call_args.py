"""A call of a program, from the arguments that the caller gave on."""

from dataclasses import dataclass, replace
from typing import Any

from bellhop.arguments.flat_tree import flatten_call
from bellhop.arguments.static_arguments import Static
from bellhop.base.types import Args, Kwargs


@dataclass(frozen=True)
class CallArgs:
    """A call of a program.

    Attributes:
        static: the arguments that are part of the program.
        caller_arguments: the others, those with a position and those with a name, as the caller
            gave them.
        args: those with a position, as the program takes them.
        kwargs: those with a name.
    """

    static: Static
    caller_arguments: tuple[Args, Kwargs]
    args: Any
    kwargs: Any

    @classmethod
    def from_caller(cls, static: Static, args: Any, kwargs: Any) -> "CallArgs":
        """Return the call whose program takes what the caller gave."""
        return cls(static, (args, kwargs), args, kwargs)

    def with_arguments(self, arguments: tuple[Any, Any]) -> "CallArgs":
        """Return the call with other arguments for the program."""
        return replace(self, args=arguments[0], kwargs=arguments[1])

    @property
    def flattened(self) -> "CallArgs":
        """That with each argument a ``FlatTree``."""
        return self.with_arguments(flatten_call(self.args, self.kwargs))
