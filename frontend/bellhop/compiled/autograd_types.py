"""The types of arguments by which PennyLane's autograd is told."""

import functools
from typing import Any


@functools.cache
def autograd_types() -> frozenset[type[Any]]:
    """Return the type of PennyLane's tensors, and that of the boxes around them."""
    from autograd.numpy.numpy_boxes import ArrayBox  # type: ignore[import-untyped]
    from pennylane.numpy import tensor

    return frozenset({tensor, ArrayBox})
