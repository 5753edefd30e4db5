"""What some tests need that the extras of ``make test`` do not install.

A test that needs PyTorch is marked, or a module of such tests is::

    @PYTORCH.mark
    def test_a_network():
        import torch

    pytestmark = PYTORCH.mark
    torch = PYTORCH.imported()

It is skipped where there is no PyTorch, and the reason says what would run it.  ``make
test-optional`` runs what is marked in an environment that has everything.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

#: Set where all packages are installed: that one is missing is a failure there.
HAS_ALL = bool(os.environ.get("BELLHOP_TESTS_HAVE_ALL"))


@dataclass(frozen=True)
class Need:
    """A package, or a program, that is not always there.

    Attributes:
        name: what users call it.
        install: what installs it.
        module: the module that it is, or None.
        program: the program that it is, or None.
    """

    name: str
    install: str
    module: str | None = None
    program: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is installed."""
        if self.program is not None:
            return shutil.which(self.program) is not None
        parent = (self.module or "").rpartition(".")[0]
        if parent and importlib.util.find_spec(parent) is None:
            return False
        return importlib.util.find_spec(self.module or "") is not None

    @property
    def reason(self) -> str:
        """Why a test is skipped, and what would run it."""
        return f"needs {self.name}: {self.install}"

    @property
    def mark(self) -> Any:
        """The mark of a test, a parameter or a module that needs it."""
        return pytest.mark.needs(self)

    def imported(self) -> ModuleType:
        """Return the module; where it is missing, skip the module of tests that asks."""
        assert self.module is not None
        if not HAS_ALL and not self.is_here:
            pytest.skip(self.reason, allow_module_level=True)
        return importlib.import_module(self.module)


PYTORCH = Need("PyTorch", "pip install torch", "torch")
KOKKOS = Need(
    "lightning.kokkos",
    "pip install pennylane-lightning-kokkos",
    "pennylane_lightning.lightning_kokkos",
)
QRACK = Need("Qrack", "pip install pennylane-qrack-cpu pyqrack-cpu", "pennylane_qrack")
STIM = Need("stim", "pip install stim", "stim")
QUIMB = Need("quimb", "pip install quimb", "quimb")
CLOUDPICKLE = Need("cloudpickle", "pip install cloudpickle", "cloudpickle")
GRAPHVIZ = Need("Graphviz", "apt-get install graphviz", program="dot")
LIBTPU = Need("libtpu", "make test-tpu", "libtpu")
COMPILER = Need("a C++ compiler", "apt-get install g++", program="c++")


def skip_what_lacks_something(items: list[pytest.Item]) -> None:
    """Skip tests that need what is missing, unless it is said to be there."""
    for item in items:
        for mark in item.iter_markers("needs"):
            need = mark.args[0]
            if not need.is_here and not (HAS_ALL and need.module):
                item.add_marker(pytest.mark.skip(reason=need.reason))


def params(values: Iterable[Any], needs: Mapping[Any, Need]) -> list[Any]:
    """Return values for ``parametrize``, some of which need something."""
    return [
        pytest.param(value, marks=needs[value].mark) if value in needs else value
        for value in values
    ]
