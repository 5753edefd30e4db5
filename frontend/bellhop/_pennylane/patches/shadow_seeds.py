"""Seeds of classical shadows that nobody gave.

PennyLane draws one where the measurement is made, so that each call of a QNode measures in other
bases.  In a program that is while it is traced, and all runs would measure in the same.  So a drawn
seed is an integer of a type of its own, and each run draws bases instead.

Replaced: the name ``np`` of the module that draws it, as users may have imported its functions.
Versions: 0.45.
Upstream: a seed that stays None in the measurement process.
Installed: with ``qnode_calls``.
Test: ``test_shadows.py``.
"""

import sys
from typing import Any

import numpy as np
import pennylane as qml

from bellhop._patching import patch


class DrawnSeed(int):
    """A seed that PennyLane drew."""


@patch("numpy in PennyLane's classical shadows", "runs of a program draw bases of their own")
def note_drawn_seeds() -> None:
    """Let PennyLane draw seeds that tell that they were drawn."""
    module: Any = sys.modules[qml.measurements.ClassicalShadowMP.__module__]
    module.np = _Numpy()


def user_seed(process: Any) -> int | None:
    """Return the seed that a user gave a classical shadow; None where there is none."""
    return None if isinstance(process.seed, DrawnSeed) else process.seed


class _Random:
    def randint(self, *args: Any) -> Any:
        return DrawnSeed(np.random.randint(*args))

    def __getattr__(self, name: str) -> Any:
        return getattr(np.random, name)


class _Numpy:
    random = _Random()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)
