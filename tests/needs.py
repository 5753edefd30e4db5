"""What some tests need that is not on every machine, and the command that would run them.

Every skip is of a `Need`, which has no form without that command.

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
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

import pytest

#: Set where all packages are installed: that one is missing is a failure there.
HAS_ALL = bool(os.environ.get("BELLHOP_TESTS_HAVE_ALL"))


#: How a command begins.
COMMAND = re.compile(r"(make|pip|apt-get|mount|sysctl|echo) ")


@dataclass(frozen=True)
class Need:
    """What is not always there.

    Attributes:
        name: what users call it.
        command: what runs the tests that need it, or gets it for them.
    """

    name: str
    command: str

    def __post_init__(self) -> None:
        if not COMMAND.match(self.command):
            raise ValueError(f"what would run a test is a command, not {self.command!r}")

    @property
    def reason(self) -> str:
        """Why a test is skipped, and what would run it."""
        return f"needs {self.name}: {self.command}"

    def skip(self, *, allow_module_level: bool = False) -> NoReturn:
        """Skip the test that is running."""
        pytest.skip(self.reason, allow_module_level=allow_module_level)

    def unless(self, here: bool) -> Any:
        """The mark of a test that is skipped unless it is here."""
        return pytest.mark.skipif(not here, reason=self.reason)


@dataclass(frozen=True)
class Installed(Need):
    """A package, or a program.

    Attributes:
        module: the module that it is, or None.
        program: the program that it is, or None.
    """

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
    def mark(self) -> Any:
        """The mark of a test, a parameter or a module that needs it."""
        return pytest.mark.needs(self)

    def import_module(self) -> ModuleType:
        """Return the module; where it is missing, skip the module of tests that asks."""
        assert self.module is not None
        if not HAS_ALL and not self.is_here:
            self.skip(allow_module_level=True)
        return importlib.import_module(self.module)


PYTORCH = Installed("PyTorch", "pip install torch", "torch")
KOKKOS = Installed(
    "lightning.kokkos",
    "pip install pennylane-lightning-kokkos",
    "pennylane_lightning.lightning_kokkos",
)
QRACK = Installed("Qrack", "pip install pennylane-qrack-cpu pyqrack-cpu", "pennylane_qrack")
STIM = Installed("stim", "pip install stim", "stim")
QUIMB = Installed("quimb", "pip install quimb", "quimb")
CLOUDPICKLE = Installed("cloudpickle", "pip install cloudpickle", "cloudpickle")
NUMBA = Installed("Numba", "pip install numba", "numba")
EQUINOX = Installed("Equinox", "pip install equinox", "equinox")
FLAX = Installed("flax", "pip install flax", "flax")
OPTIMISTIX = Installed("optimistix", "pip install optimistix", "optimistix")
DIFFRAX = Installed("diffrax", "pip install diffrax", "diffrax")
NUMPYRO = Installed("numpyro", "pip install numpyro", "numpyro")
BLACKJAX = Installed("blackjax", "pip install blackjax", "blackjax")
PYSCF = Installed("PySCF", "pip install pyscf", "pyscf")
ORBAX = Installed("orbax", "pip install orbax-checkpoint", "orbax.checkpoint")
TENSORBOARD = Installed("TensorBoard", "pip install tensorboardX", "tensorboardX")
WANDB = Installed("wandb", "pip install wandb", "wandb")
CHROMIUM = Installed("Chromium", "apt-get install chromium", program="chromium")
GRAPHVIZ = Installed("Graphviz", "apt-get install graphviz", program="dot")
LIBTPU = Installed("libtpu", "make test-tpu", "libtpu")
COMPILER = Installed("a C++ compiler", "apt-get install g++", program="c++")

GPU = Need("a GPU", "make test-gpu")
STANDIN = Need("the stand-in for a GPU", "make test-gpu on a machine that has no GPU")
TWO_GPUS = Need("two GPUs", "make test-gpu on a machine with two GPUs, or with none")
CLONE = Need("a clone, as an sdist has no .ci", "make test in a clone")
PAGES = Need("the built pages", "make docs")
LINUX = Need("Linux", "make test-full on Linux")
FORK = Need("os.fork", "make test-full on Linux or macOS")
TERMINALS = Need("pseudo-terminals", "mount -t devpts devpts /dev/pts")


def skip_missing_needs(items: list[pytest.Item]) -> None:
    """Skip tests that need what is missing, unless it is said to be there."""
    for item in items:
        for mark in item.iter_markers("needs"):
            need = mark.args[0]
            if not need.is_here and not (HAS_ALL and need.module):
                item.add_marker(pytest.mark.skip(reason=need.reason))


def params(values: Iterable[Any], needs: Mapping[Any, Installed]) -> list[Any]:
    """Return values for ``parametrize``, some of which need something."""
    return [
        pytest.param(value, marks=needs[value].mark) if value in needs else value
        for value in values
    ]
