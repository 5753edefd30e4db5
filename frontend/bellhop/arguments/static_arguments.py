"""Static arguments: arguments whose values are part of the program."""

import inspect
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import jax

from bellhop.base.source import describe_derived_function
from bellhop.base.types import Args, Kwargs
from bellhop.errors import format_value

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Donated:
    """The donated arguments of a qjit function, whose memory the results may reuse.

    Attributes:
        positions: indices among the dynamic positional arguments: static arguments do not count.
        names: names of parameters that are donated when they are passed by keyword.
    """

    positions: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)

    def __contains__(self, key: int | str) -> bool:
        return key in self.positions or key in self.names


class StaticArguments:
    """The static arguments of a function, by position and by name.

    An argument that has a position and a name is static however it is passed.

    Args:
        function: the user's function.
        argnums: their positions; negative positions count from the end.
        argnames: their names.
        construct: name of the public function that compiles `function`, for errors.

    Attributes:
        argnums: all positions, including positions of `argnames`; at least 0, increasing.
        argnames: all names, including names of `argnums`; sorted.

    Raises:
        TypeError: if a position is not an integer or a name is not a string.
        ValueError: for a position or name that the function does not have.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | Iterable[int] | None,
        argnames: str | Iterable[str] | None,
        construct: str = "qjit",
    ) -> None:
        self._function = function
        self._where = describe_derived_function(construct, function)
        self._positions = set(parse_positions("static_argnums", argnums, construct))
        self._names = set(parse_names("static_argnames", argnames, construct))
        if self._positions or self._names:
            self._complete_names(_parameters(function))
        # Created once: fast calls are compared by the identity of these objects.
        self.argnums: tuple[int, ...] = tuple(sorted(self._positions))
        self.argnames: tuple[str, ...] = tuple(sorted(self._names))

    def __bool__(self) -> bool:
        return bool(self._positions or self._names)

    def select_donated(self, argnums: Any, argnames: Any) -> Donated:
        """Find the arguments that ``donate_argnums`` and ``donate_argnames`` select.

        As in ``jax.jit``, an option selects its arguments both by position and by keyword if the
        other option is None.

        Args:
            argnums: positions among all arguments, including static arguments; or None.
            argnames: names of parameters; or None.

        Returns:
            the donated arguments, by position among the dynamic arguments and by name.

        Raises:
            TypeError: for values that are not positions or names.
            ValueError: for a static argument, a position below 0 or given twice, or an argument
                that the function does not have.
        """
        chosen = self._check_donated_positions("donate_argnums", argnums)
        chosen_names = self._check_donated_names("donate_argnames", argnames)
        by_keyword = {
            parameter.name: position
            for position, parameter in enumerate(_parameters(self._function))
            if parameter.kind is POSITIONAL[1]
        }
        if argnames is None:
            chosen_names = tuple(
                name for name, position in by_keyword.items() if position in chosen
            )
        elif argnums is None:
            chosen = tuple(by_keyword[name] for name in chosen_names if name in by_keyword)
        # The program has no parameters for static arguments.
        count_static_before = lambda position: sum(static < position for static in self._positions)
        return Donated(
            tuple(position - count_static_before(position) for position in chosen), chosen_names
        )

    def _check_donated_names(self, option: str, given: Any) -> tuple[str, ...]:
        """Convert the option ``donate_argnames`` to a tuple, and check the names.

        Args:
            option: name of the option, for errors.
            given: None, a string or an iterable of strings.

        Raises:
            TypeError: for any other value.
            ValueError: for static arguments and unknown names.
        """
        chosen = parse_names(option, given)
        self._check_names(option, chosen)
        for name in chosen:
            if name in self._names:
                raise ValueError(
                    f"{self._where}: {option} has '{name}', which is a static argument. "
                    "Name dynamic arguments only."
                )
        return chosen

    def _check_donated_positions(self, option: str, given: Any) -> tuple[int, ...]:
        """Convert the option ``donate_argnums`` to a tuple, and check the positions.

        Args:
            option: name of the option, for errors.
            given: None, an integer or an iterable of integers.

        Returns:
            positions among all arguments, including static arguments.

        Raises:
            TypeError: for any other value.
            ValueError: for static arguments, repeated or negative positions, and positions that the
                function does not have.
        """
        chosen = parse_positions(option, given)
        if not chosen:
            return ()
        parameters = _parameters(self._function)
        count = sum(p.kind in POSITIONAL for p in parameters)
        is_open = any(p.kind is _VARIADIC[0] for p in parameters)
        for position in chosen:
            if position in self._positions or position < 0:
                raise ValueError(
                    f"{self._where}: {option} has {position}, expected non-negative "
                    "positions of arguments that are not static. Correct the positions."
                )
            if position >= count and not is_open:
                raise ValueError(self._too_many_error(option, position, count))
            if chosen.count(position) > 1:
                raise ValueError(
                    f"{self._where}: {option} has {position} twice. Name each argument once."
                )
        return chosen

    def dynamic_names(self) -> list[str]:
        """Return the names of the positional parameters that are not static."""
        positional = [p.name for p in _parameters(self._function) if p.kind in POSITIONAL]
        return [name for i, name in enumerate(positional) if i not in self._positions]

    def _complete_names(self, parameters: list[inspect.Parameter]) -> None:
        """Make every static argument static by position and by name, in place.

        `_positions` gets the position of each parameter in `_names`, and vice versa, unless the
        parameter has only one of them. Negative positions are replaced by positions from 0.

        Args:
            parameters: all parameters of the user's function.

        Raises:
            ValueError: for positions and names that the function does not have.
        """
        positional = [p for p in parameters if p.kind in POSITIONAL]
        kinds = {p.kind for p in parameters}
        for position in sorted(self._positions):
            index = position + len(positional) if position < 0 else position
            if index < 0 or (index >= len(positional) and _VARIADIC[0] not in kinds):
                raise ValueError(self._too_many_error("static_argnums", position, len(positional)))
            self._positions ^= {position, index} if position != index else set()
            if index < len(positional) and positional[index].kind is not POSITIONAL[0]:
                self._names.add(positional[index].name)
        self._check_names("static_argnames", sorted(self._names))
        self._positions |= {i for i, p in enumerate(positional) if p.name in self._names}

    def _check_names(self, option: str, chosen: Iterable[str]) -> None:
        """Raise `ValueError` if the function has no parameters with the names `chosen`.

        A function with ``**kwargs`` accepts all names.

        Args:
            option: name of the option, for the error.
            chosen: names of parameters.
        """
        parameters = _parameters(self._function)
        known = [p.name for p in parameters if p.kind not in _VARIADIC]
        if any(p.kind is _VARIADIC[1] for p in parameters):
            return
        for name in chosen:
            if name not in known:
                raise ValueError(
                    f"{self._where}: {option} has '{name}', expected names of parameters: "
                    f"{', '.join(known) or 'the function has none'}."
                )

    def _too_many_error(self, option: str, position: int, count: int) -> str:
        """Return the message for a position that the function does not have.

        Args:
            option: name of the option that contains the position.
            position: the position that the user passed.
            count: number of the function's positional parameters.
        """
        return (
            f"{self._where}: {option} has {position}, but the function has {count} "
            "positional parameters, counted from 0. Correct the position."
        )

    def split(self, args: Args, kwargs: Kwargs) -> tuple["Static", Any, Any]:
        """Split the arguments of a call into static and dynamic arguments.

        Returns:
            the static arguments, and the dynamic positional and keyword arguments, in a tuple and a
            dictionary.

        Raises:
            ValueError: for a static argument that is not hashable.
        """
        static: dict[int | str, Any] = {i: args[i] for i in self.argnums if i < len(args)}
        static |= {name: kwargs[name] for name in self.argnames if name in kwargs}
        for key, value in static.items():
            self._check_hashable(key, value)
        args = tuple(arg for i, arg in enumerate(args) if i not in self._positions)
        kwargs = {name: value for name, value in kwargs.items() if name not in self._names}
        return Static(static), args, kwargs

    def _check_hashable(self, key: int | str, value: object) -> None:
        """Raise `ValueError` if a static argument is not hashable.

        Args:
            key: position or name of the argument, for the error.
        """
        try:
            hash(value)
        except TypeError as error:
            which = f"{key}" if isinstance(key, int) else f"'{key}'"
            advice = "Pass a tuple in place of a list or an array, or define __hash__."
            if isinstance(value, jax.core.Tracer):
                advice = "It is traced: pass a Python value, or do not make the argument static."
            raise ValueError(
                f"{self._where}: the static argument {which} is of type "
                f"{type(value).__name__}, which cannot be hashed ({error}). {advice}"
            ) from error


def parse_positions(option: str, given: Any, function: str = "qjit") -> tuple[int, ...]:
    """Convert an option of argument positions to a tuple of integers.

    Args:
        option: name of the option, for errors.
        given: None, an integer or an iterable of integers.
        function: name of the public function, for errors.

    Raises:
        TypeError: for any other value.
    """
    try:
        if given is None:
            return ()
        if not isinstance(given, Iterable):
            return (operator.index(given),)
        return tuple(map(operator.index, given))
    except TypeError as error:
        raise TypeError(
            f"{function}: {option} takes positions of arguments, as 1 or (0, 2), got "
            f"{format_value(given)}."
        ) from error


def parse_names(option: str, given: Any, function: str = "qjit") -> tuple[str, ...]:
    """Convert an option of argument names to a tuple of strings.

    Args:
        option: name of the option, for errors.
        given: None, a string or an iterable of strings.
        function: name of the public function, for errors.

    Raises:
        TypeError: for any other value.
    """
    given = () if given is None else given
    listed = (given,) if isinstance(given, str) else given
    if isinstance(listed, Iterable):
        listed = tuple(listed)
        if all(isinstance(name, str) for name in listed):
            return listed
    raise TypeError(
        f"{function}: {option} takes names of arguments, as 'n' or ('n', 'm'), got "
        f"{format_value(given)}."
    )


class Static:
    """Static arguments of one call: a hashable part of the program's cache key.

    Two objects are equal if the types, hashes and values of all arguments are. Hashes are computed
    once, at the call, so an object that is mutated later is a different argument.

    Args:
        values: arguments by position or name, positions first, both in increasing order.

    Attributes:
        key: position or name, type, hash and value of each argument, in one flat tuple: ``(0, int,
            3, 3)`` for the argument 3 at position 0. Fast calls build equal tuples in C++
            (``FastCall``).
    """

    __slots__ = ("_hash", "_values", "key")

    def __init__(self, values: dict[int | str, Any]) -> None:
        self._values = values
        self.key: tuple[Any, ...] = tuple(
            item for key, value in values.items() for item in (key, type(value), hash(value), value)
        )
        self._hash = hash(tuple(zip(self.key[::4], self.key[2::4], strict=True)))

    @classmethod
    def from_key(cls, key: tuple[Any, ...]) -> "Static":
        """Rebuild the static arguments from the attribute `key` of an equal object."""
        return cls(dict(zip(key[::4], key[3::4], strict=True)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def merge(self, args: Args, kwargs: Kwargs) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Put the static arguments back between the dynamic arguments of a call.

        This is the inverse of `StaticArguments.split`.

        Returns:
            all positional and all keyword arguments.
        """
        rest = iter(args)
        positions = {key for key in self._values if isinstance(key, int)}
        merged = tuple(
            self._values[index] if index in positions else next(rest)
            for index in range(len(args) + len(positions))
        )
        named = {key: value for key, value in self._values.items() if isinstance(key, str)}
        return merged, {**kwargs, **named}


NO_STATIC = Static({})
# `Static` is a pytree node without leaves, so JAX compiles a program for each value.
jax.tree_util.register_pytree_node(Static, lambda static: ((), static), lambda static, _: static)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """List a function's parameters.

    A built-in function without a signature has the parameters ``*args`` and ``**kwargs``.
    """
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError):
        # Some built-in functions have no signature.
        unknown = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        return [unknown, inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)]
