"""A call of a program, from the arguments that the caller gave on."""

from dataclasses import dataclass, replace
from typing import Any

from bellhop.base.flat import flat_arguments
from bellhop.base.static_arguments import Static
from bellhop.base.types import Args, Kwargs


@dataclass(frozen=True)
class GivenCall:
    """A call of a program.

    Attributes:
        static: the arguments that are part of the program.
        given: the others, those with a position and those with a name, as the caller gave them.
        args: those with a position, as the program takes them.
        kwargs: those with a name.
    """

    static: Static
    given: tuple[Args, Kwargs]
    args: Any
    kwargs: Any

    @classmethod
    def of(cls, static: Static, args: Any, kwargs: Any) -> "GivenCall":
        """Return the call whose program takes what the caller gave."""
        return cls(static, (args, kwargs), args, kwargs)

    def taking(self, arguments: tuple[Any, Any]) -> "GivenCall":
        """Return the call with other arguments for the program."""
        return replace(self, args=arguments[0], kwargs=arguments[1])

    @property
    def flat(self) -> "GivenCall":
        """That with each argument a ``Flat``."""
        return self.taking(flat_arguments(self.args, self.kwargs))
