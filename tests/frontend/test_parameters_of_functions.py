"""Functions that Bellhop calls: an error names the construct if they take other arguments."""

from collections.abc import Callable
from typing import Any

import pennylane as qml
import pytest

import bellhop

Program = Callable[[Any], Any]


def _loop_without_index() -> Program:
    return bellhop.for_loop(0, 3, 1)(lambda y: y)


def _condition_without_value() -> Program:
    return bellhop.while_loop(lambda: True)(lambda y: y)


def _body_without_value() -> Program:
    return bellhop.while_loop(lambda y: y < 1)(lambda: 1)


def _branch_without_argument() -> Program:
    return lambda x: bellhop.cond(x > 0, lambda: 1.0, lambda y: y)(x)


def _static_branch_without_argument() -> Program:
    return lambda x: bellhop.cond(False, lambda y: y, lambda: 1.0)(x)


def _case_without_argument() -> Program:
    def program(x: Any) -> Any:
        choice = bellhop.switch(x.astype(int))(lambda y: y)
        choice.branch(3)(lambda: 1.0)
        return choice(x)

    return program


def _rule(kind: str, rule: Callable[..., Any]) -> Program:
    square = bellhop.pure_callback(lambda x: x**2, float)
    if kind == "bwd":
        square.fwd(lambda x: (square(x), x))
    getattr(square, kind)(rule)
    return bellhop.grad(square)


def _fwd_without_argument() -> Program:
    square = bellhop.pure_callback(lambda x: x**2, float)
    square.fwd(lambda: None)
    square.bwd(lambda x, cotangent: cotangent)
    return bellhop.grad(square)


def _shown_cotangent() -> Program:
    return bellhop.grad(lambda x: bellhop.debug.cotangent(x, lambda: None))


def _extrapolation() -> Program:
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x: Any) -> Any:
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    return bellhop.mitigate_with_zne(circuit, scale_factors=[1, 3], extrapolate=lambda scales: 0)


MISTAKES: list[tuple[Callable[[], Program], str]] = [
    (
        _loop_without_index,
        r"for_loop of .*: the body takes \(y\), expected 2 parameters: the",
    ),
    (_condition_without_value, r"the condition takes \(\), expected 1 parameter: 1 carried value"),
    (_body_without_value, r"the body takes \(\), expected 1 parameter: 1 carried value"),
    (_branch_without_argument, r"cond: the first branch .* takes \(\), expected 1 parameter"),
    (_static_branch_without_argument, r"cond: otherwise .* takes \(\), expected 1 parameter"),
    (_case_without_argument, r"switch: the branch of case 3 .* takes \(\), expected 1 parameter"),
    (_fwd_without_argument, r"the fwd rule of .* takes \(\), expected 1 parameter"),
    (lambda: _rule("bwd", lambda ct: ct), r"the bwd rule of .*: the residuals that fwd returned"),
    (lambda: _rule("jvp", lambda x: x), r"the jvp rule of .*: the tuple of the arguments"),
    (lambda: _rule("transpose", lambda: 0), r"the transpose rule of .* takes \(\), expected 1"),
    (_shown_cotangent, r"show, '<lambda>' .*, takes \(\), expected 1 parameter: the cotangent"),
    (_extrapolation, r"extrapolate, '<lambda>' .*, takes \(scales\), expected 2 parameters"),
]


@pytest.mark.parametrize(("program", "message"), MISTAKES)
def test_error_names_construct_line_and_parameters(
    program: Callable[[], Program], message: str
) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        bellhop.qjit(program())(0.5)
    assert f"{__file__}:" in str(caught.value)
    assert str(caught.value).endswith("Declare the parameters in this order.")


def test_type_errors_inside_of_a_body_stay_the_users() -> None:
    def body(i: Any, y: Any) -> Any:
        return (lambda: y)(i)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match=r"takes 0 positional arguments but 1 was given"):
        bellhop.qjit(bellhop.for_loop(0, 3, 1)(body))(1.0)


def test_branches_that_are_not_run_may_take_other_arguments() -> None:
    assert bellhop.cond(True, lambda y: y, lambda: 1.0)(2.0) == 2.0
