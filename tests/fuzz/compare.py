"""Holds what came of the calls of a program against what its reference says."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bellhop

from .references.uncompiled_pennylane import NoSuchWiresError
from .refusals import REFUSALS

# Of two frequencies of 2000 shots each, six standard deviations.
BY_CHANCE = 0.3

# JAX's words where forward mode meets a callback that has a rule for reverse mode only.
FORWARD_MODE = "can't apply forward-mode autodiff"

# Bellhop's words where a circuit has no such wire.
NO_SUCH_WIRE = r"wire (?P<wire>-?\d+) is not in the circuit, which has wires 0 to (?P<last>\d+)"

_NOT_PRINTED = ("o", "w", "i", "j", "u")
# Of a program of ours.
_IN_PROGRAM_ORDER = ("o", "w", "print")


class Difference(AssertionError):
    """A program did not do what its reference did; the first argument is the kind."""


def compare(ours: dict[str, Any], reference: dict[str, Any]) -> list[str]:
    """Compare two runs of a script; return the reasons of refusals.

    Raises:
        Difference: where they differ.
    """
    refused = []
    pairs = zip(ours["outcomes"], reference["outcomes"], strict=True)
    for number, ((result, seen, how), (expected, events, _)) in enumerate(pairs):
        where = f"call {number}"
        if isinstance(result, Exception) and not isinstance(expected, Exception):
            refused.append(_speculation(result, ours, how) or _refusal(result, where))
            # What is fed to later calls is not the same any more.
            return refused
        if isinstance(expected, Exception):
            _exceptions(result, expected, ours, reference, how, where)
            # What is refused may be refused before anything runs.
            is_refused = isinstance(result, Exception) and bool(_reason(result))
            if not is_refused and _raise_in_order(result, expected, how):
                _events_before(seen, events, expected, how, where)
            if not isinstance(result, Exception):
                return refused
            continue
        if how.get("same"):
            _equal(result, ours["outcomes"][number - 1][0], where)
        _trees(result, expected, where)
        _events(seen, events, how, where)
    return refused


def _refusal(error: Exception, where: str) -> str:
    """Return why what was refused was, or say that an exception is a fault."""
    reason = _reason(error)
    if reason:
        return reason
    text = f"{type(error).__name__}: {error}"
    # Its first words tell it from others, without what names and numbers stand in it.
    words = re.findall(r"\b[A-Za-z_]+\b", re.sub(r"'.*?'|\(.*?\)", "", str(error)))
    raise Difference(" ".join([type(error).__name__, *words[:7]]), f"{where}: {text}") from error


def _reason(error: Exception) -> str:
    """Return why an exception is right, whatever the reference did; empty where it is not."""
    text = f"{type(error).__name__}: {error}"
    return next((why for pattern, why in REFUSALS.items() if re.search(pattern, text)), "")


def _exceptions(
    result: Any,
    expected: Exception,
    ours: dict[str, Any],
    reference: dict[str, Any],
    how: dict[str, Any],
    where: str,
) -> None:
    is_pure = expected in reference["raised"] and expected.args[0].startswith("p")
    if not isinstance(result, Exception):
        # Unused values need not be computed; transformations drop more.
        if is_pure or _is_of_unused(expected):
            return
        if expected not in reference["raised"] and (how.get("derivative") or how.get("mapped")):
            return
        raise Difference("no exception", f"{where}: {result!r} instead of {expected!r}")
    if expected not in reference["raised"] or _reason(result):
        return
    # A program without an unused pure call may go on to wires that do not exist.
    is_later = is_pure and _names_no_wire(result)
    if not is_later and not _is_among(result, ours["raised"]):
        raise Difference("another exception", f"{where}: {result!r} instead of {expected!r}")
    if _raise_in_order(result, expected, how):
        _trees(result.args, expected.args, f"{where}, its exception")


def _speculation(error: Exception, ours: dict[str, Any], how: dict[str, Any]) -> str:
    """Return why a call that the reference does not reach may raise; empty where it may not."""
    if _is_among(error, ours["raised"]):
        if how.get("mapped"):
            return "a branch that no row takes"
        if _has_loops_of_jax(how) and _channel(error.args[0]) == "p":
            return "a loop without iterations"
    if _has_loops_of_jax(how) and _names_no_wire(error):
        return "a circuit of a loop without iterations"
    return ""


def _names_no_wire(error: Exception) -> bool:
    """Return whether a circuit's error names a wire that its circuit does not have."""
    if not isinstance(error, bellhop.CircuitError):
        return False
    found = re.search(NO_SUCH_WIRE, str(error))
    return found is not None and not 0 <= int(found["wire"]) <= int(found["last"])


def _has_loops_of_jax(how: dict[str, Any]) -> bool:
    """Return whether XLA may move pure calls out of loops, which may have no iterations."""
    return bool(how.get("jit") or how.get("derivative") or how.get("mapped"))


def _is_among(error: Exception, raised: list[Exception]) -> bool:
    """Return whether callbacks of a script raised this very exception."""
    return any(error is each for each in raised)


def _is_of_unused(expected: Exception) -> bool:
    """Return whether compiled programs may leave out what raised an exception in the reference."""
    is_of_forward_mode = isinstance(expected, TypeError) and FORWARD_MODE in str(expected)
    return is_of_forward_mode or isinstance(expected, NoSuchWiresError)


def _raise_in_order(result: Any, expected: Exception, how: dict[str, Any]) -> bool:
    """Return whether an order is promised of what raised here, and of what raised in the reference.

    Where there is none, as of ordered and other effects in a ``jax.jit``, either may raise first.
    Mapped, both branches of a conditional run.  A pure call that is left out lets any other raise.
    """
    if not isinstance(result, Exception):
        return True
    if how.get("mapped"):
        return False
    ours, needed = (_channel(str(*error.args[:1])) for error in (result, expected))
    if needed == "p":
        return ours == needed
    groups = [group for group in _ordered_together(how) if needed in group]
    return ours == needed or all(ours in group for group in groups)


def _channel(name: str) -> str:
    """Return the kind of effect that a callback's name stands for, such as "o" for "o12"."""
    return name.rstrip("0123456789")


def _trees(result: Any, expected: Any, where: str) -> None:
    """Compare values: structure, types and numbers."""
    leaves, structure = jax.tree.flatten_with_path(result)
    others, needed = jax.tree.flatten(expected)
    if structure != needed:
        raise Difference("structure", f"{where}: {structure} instead of {needed}")
    for (path, leaf), other in zip(leaves, others, strict=True):
        name = f"{where}{jax.tree_util.keystr(path)}"
        if isinstance(other, str):
            if leaf != other:
                raise Difference("text", f"{name}: {leaf!r} instead of {other!r}")
            continue
        _arrays(leaf, other, name, by_chance="random" in jax.tree_util.keystr(path))


def _arrays(leaf: Any, other: Any, name: str, by_chance: bool = False) -> None:
    if _type(leaf) != _type(other):
        raise Difference("type", f"{name}: {_type(leaf)} instead of {_type(other)}")
    wide = complex if jnp.issubdtype(np.asarray(other).dtype, np.complexfloating) else float
    values, needed = np.asarray(leaf).astype(wide), np.asarray(other).astype(wide)
    if not arrays_agree(values, needed, np.asarray(other).dtype, by_chance):
        raise Difference("value", f"{name}: {values} instead of {needed}")


def arrays_agree(values: Any, needed: Any, dtype: Any, by_chance: bool = False) -> bool:
    """Return whether two arrays agree within the tolerance of a dtype, or of drawn frequencies."""
    tolerance = BY_CHANCE if by_chance else _tolerance(jnp.dtype(dtype))
    return np.allclose(values, needed, rtol=tolerance, atol=tolerance, equal_nan=True)


def _type(leaf: Any) -> tuple[tuple[int, ...], str]:
    # A number of JAX's own has a type that NumPy does not see.
    return np.shape(leaf), np.dtype(getattr(leaf, "dtype", np.asarray(leaf).dtype)).name


def _tolerance(dtype: Any) -> float:
    """Return how far two ways of computing a number may be apart."""
    if not jnp.issubdtype(dtype, np.inexact):
        return 0.0
    return max(1e-9, 30 * float(jnp.finfo(dtype).eps))


def _events(seen: Any, expected: Any, how: dict[str, Any], where: str) -> None:
    """Compare calls of Python: in order where an order is promised."""
    for channels in _ordered_together(how):
        ours, needed = _of(channels, seen), _of(channels, expected)
        name = f"{where}, {', '.join(channels)}"
        if how.get("mapped"):
            # Taps are left the whole batch, and both branches of a mapped conditional run.
            if channels != ("t",):
                _each_is_among(_of(_NOT_PRINTED, needed), ours, name)
        elif "u" not in channels and not how.get("threads"):
            if [event[0] for event in ours] != [event[0] for event in needed]:
                raise Difference("events", f"{name}: {ours} instead of {needed}")
            _trees(ours, needed, name)
        elif len(ours) != len(needed):
            raise Difference("events", f"{name}: {ours} instead of {needed}")
        else:
            _each_is_among(needed, ours, name)
    if not how.get("mapped"):
        needed = _of(("p",), expected)
        ours = _of(("p",), seen)
        if _has_loops_of_jax(how):
            names = {name for name, _ in needed}
            ours = [event for event in ours if event[0] in names]
        _each_is_among(ours, needed, f"{where}, p")


def _ordered_together(how: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return groups of channels, each of which has one order; "u" has none."""
    others: list[tuple[str, ...]] = [("i",), ("j",), ("t",)]
    if how.get("jit"):
        return [("o", "print"), *others, ("w", "u")]
    return [_IN_PROGRAM_ORDER, *others, ("u",)]


def _events_before(
    seen: Any, expected: Any, error: Exception, how: dict[str, Any], where: str
) -> None:
    """Compare ordered effects before an exception: none is lost, and none comes after it.

    A pure callback that raises may do so sooner or later than its place in the program, and so may
    a circuit whose wires do not exist, and a callback without a rule for forward mode.
    """
    if how.get("mapped") or how.get("threads"):
        return
    ordered = ("o", "print") if how.get("jit") else _IN_PROGRAM_ORDER
    ours, needed = ([event[:1] for event in _of(ordered, events)] for events in (seen, expected))
    is_pure = _is_of_unused(error)
    is_pure |= _of(("p",), expected)[-1:] == [*expected][-1:]
    count = min(len(ours), len(needed)) if is_pure else None
    if ours[:count] != needed[:count]:
        raise Difference("events", f"{where}, before the exception: {ours} instead of {needed}")


def _equal(result: Any, before: Any, where: str) -> None:
    """Compare what a seeded program gave twice."""
    for leaf, other in zip(jax.tree.leaves(result), jax.tree.leaves(before), strict=True):
        if not np.array_equal(np.asarray(leaf), np.asarray(other), equal_nan=True):
            raise Difference("seed", f"{where}: {leaf} instead of {other}, as before")


def _of(channels: tuple[str, ...], events: Any) -> list[Any]:
    return [event for event in events if _channel(event[0]) in channels]


def _each_is_among(events: list[Any], others: list[Any], where: str) -> None:
    for event in events:
        if not any(_same(event, other) for other in others):
            raise Difference("events", f"{where}: {event} is not among {others}")


def _same(event: Any, other: Any) -> bool:
    try:
        _trees(event, other, "")
    except Difference:
        return False
    return True
