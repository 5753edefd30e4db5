"""Entries of registries are removed from the text of a file, and nothing else."""

import datetime

import pennylane as qml
import pytest
from tests.deletion import __main__ as script
from tests.deletion.abilities import ABILITIES
from tests.deletion.forget import forget

import bellhop
from bellhop.circuits.backends.choose import choose_executor
from bellhop.circuits.ir.executors import Executor

REGISTRY = """\
from a import shadow, mean
from b import (
    shadow,  # a comment
    mean,
)
from shadow_file import x

TABLE = {
    1: ("one", shadow),
    2: ("two", mean),
}
__all__ = ["mean", "shadow"]


def choose(name):
    if name == "shadow":
        return run()
    return isinstance(name, mean | shadow)
"""

REMAINDER = """\
from a import mean
from b import (
    mean,
)
from shadow_file import x

TABLE = {
    2: ("two", mean),
}
__all__ = ["mean"]


def choose(name):
    return isinstance(name, mean)
"""


def test_only_entries_with_the_word_are_removed():
    assert forget(REGISTRY, "shadow") == REMAINDER


def test_a_word_that_nothing_mentions_is_an_error():
    with pytest.raises(LookupError, match="no entry mentions 'tape'"):
        forget(REGISTRY, "tape")


@pytest.mark.parametrize("name", ABILITIES)
def test_what_an_ability_deletes_exists(name):
    ability = ABILITIES[name]
    assert all(list(script.ROOT.glob(pattern)) for pattern in (*ability.files, *ability.tests))
    for file, words in ability.mentions.items():
        text = (script.ROOT / file).read_text()
        for word in words:
            text = forget(text, word)


def test_abilities_take_turns(monkeypatch):
    days = iter([datetime.date(2026, 1, day) for day in range(1, 7)])
    monkeypatch.setattr(script, "today", lambda: next(days))
    chosen = [script.choose_names(2) for _ in range(6)]
    assert len({name for names in chosen for name in names}) == len(ABILITIES) == 12


def test_a_circuit_that_needs_a_deleted_backend_is_an_error(monkeypatch):
    monkeypatch.delitem(choose_executor._RUNNERS, Executor.ARRAYS)

    @bellhop.qjit
    @qml.qnode(qml.device("default.mixed", wires=1))
    def circuit(x):
        qml.RX(x, 0)
        return qml.expval(qml.Z(0))

    with pytest.raises(bellhop.CompileError, match="needs the backend 'arrays', since default.mix"):
        circuit(0.4)
    with pytest.raises(bellhop.CompileError, match="this installation of bellhop has no such"):
        circuit(0.4)
