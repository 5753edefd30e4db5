"""How often Python looks for garbage while programs are traced."""

import gc
from typing import Any

import pytest

import bellhop


@pytest.mark.parametrize("fails", [False, True])
def test_collections_are_rare_while_a_program_is_traced(fails: bool) -> None:
    seen: list[int] = []

    @bellhop.qjit
    def program(x: Any) -> Any:
        seen.append(gc.get_threshold()[0])
        return 1 / 0 if fails else x

    usual = gc.get_threshold()
    if fails:
        with pytest.raises(ZeroDivisionError):
            program(1.0)
    else:
        program(1.0)
    assert gc.get_threshold() == usual
    assert seen[0] > usual[0]


def test_switched_off_it_stays_so() -> None:
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        assert bellhop.qjit(lambda x: x + gc.get_threshold()[0])(1.0) == 1.0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)
