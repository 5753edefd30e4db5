"""Exceptions whose classes reject attributes reach the caller, with their notes."""

from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pennylane as qml
import pytest

import bellhop
from bellhop.base.exception_attributes import find_hidden_exception


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


def _fail(*args: Any) -> Any:
    raise FrozenError(3)


def _in_rule() -> Callable[..., Any]:
    identity = bellhop.pure_callback(lambda x: x, float)
    identity.jvp(_fail)
    return bellhop.grad(identity)


PROGRAMS: dict[str, tuple[Callable[[], Callable[..., Any]], str]] = {
    "function": (lambda: _fail, ""),
    "loop": (lambda: bellhop.for_loop(0, 3, 1)(_fail), ""),
    "region": (lambda: bellhop.accelerate(_fail), ""),
    "rule": (_in_rule, "raised in the jvp rule of pure_callback"),
    "inference": (lambda: bellhop.pure_callback(_fail, bellhop.infer), "was called with zeros"),
    "callback": (lambda: bellhop.pure_callback(_fail, float), "raised in callback '_fail'"),
    "QNode": (
        lambda: qml.qnode(qml.device("lightning.qubit", wires=1))(_fail),
        f"raised in the QNode '_fail' ({__file__}",
    ),
}


@pytest.mark.parametrize("place", PROGRAMS)
def test_frozen_exception_reaches_the_caller_with_notes(place: str) -> None:
    make, note = PROGRAMS[place]
    with pytest.raises(FrozenError) as caught:
        bellhop.qjit(make())(1.0)
    assert caught.value.code == 3
    assert note in "\n".join(getattr(caught.value, "__notes__", ()))
    assert "<string>" not in "\n".join(getattr(caught.value, "__notes__", ()))


def test_frozen_exception_in_autograph_names_the_line() -> None:
    with pytest.raises(FrozenError) as caught:
        bellhop.qjit(_fail, autograph=True)(1.0)
    assert "converted by autograph, at " + __file__ in "\n".join(caught.value.__notes__)


def test_errors_of_the_users_own_assignments_stay() -> None:
    def handle(x: Any) -> Any:
        try:
            _fail()
        except FrozenError as error:
            error.code = 4  # type: ignore[misc]

    with pytest.raises(FrozenInstanceError, match="code") as caught:
        bellhop.qjit(handle)(1.0)
    assert find_hidden_exception(caught.value) is caught.value


def test_frozen_exception_while_stages_are_made() -> None:
    for stage in ("trace", "lower", "eval_shape"):
        with pytest.raises(FrozenError):
            getattr(bellhop.qjit(_fail), stage)(1.0)
    with pytest.raises(FrozenError):
        bellhop.draw(_fail)(1.0)
