"""Mark the seeds of classical shadows that PennyLane draws itself.

PennyLane draws a default seed when the measurement process is created, so that each call of a QNode
measures in other bases.  A program creates it only once, while it is traced, and all executions
would measure in the same bases.  So a drawn seed has a special integer type, and each execution of
the program draws new bases.

Replaced: the name ``np`` in the module that draws it, since users may have imported its functions.
Versions: 0.45.
Upstream: a seed that stays None in the measurement process.
Issue: none reported.
Installed: with ``qnode_calls``.
Test: ``test_shadows.py``.
"""

import sys
from typing import Any

import numpy as np
import pennylane as qml

from bellhop._patching import patch, replace


class DrawnSeed(int):
    """A seed of a classical shadow that PennyLane drew, as the user passed none."""


@patch("numpy in PennyLane's classical shadows", "each execution draws new bases")
def mark_drawn_seeds() -> None:
    """Make PennyLane mark the seeds that it draws for classical shadows.

    A drawn seed is then a `DrawnSeed`, so that `user_seed` can distinguish it from the user's seed.
    """
    module: Any = sys.modules[qml.measurements.ClassicalShadowMP.__module__]
    replace(module, "np", _Numpy())


def user_seed(process: Any) -> int | None:
    """Return the seed that the user passed to a classical shadow.

    Args:
        process: measurement process of the shadow.

    Returns:
        the seed; None if the user passed none, and PennyLane drew a seed.
    """
    return None if isinstance(process.seed, DrawnSeed) else process.seed


class _Random:
    """Replacement for `numpy.random`, whose `randint` returns a `DrawnSeed`.

    PennyLane's module of classical shadows draws its seeds with it; there is one instance.
    """

    def randint(self, *args: Any) -> Any:
        """Draw an integer with ``numpy.random.randint``; return it as a `DrawnSeed`."""
        return DrawnSeed(np.random.randint(*args))

    def __getattr__(self, name: str) -> Any:
        return getattr(np.random, name)


class _Numpy:
    """Replacement for NumPy in PennyLane's module of classical shadows.

    It forwards to `numpy`, except that ``numpy.random.randint`` returns a `DrawnSeed`.
    """

    random = _Random()

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)
