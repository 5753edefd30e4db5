"""Profiles as timelines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_timeline(
    rows: Sequence[tuple[Any, ...]], host_calls: Any, ax: "Axes | None" = None
) -> "Axes":
    """Plot a profile's host calls over time, in milliseconds since the first call.

    Each row of the profile has a line; the part of a call that waits for the GIL is paler.

    Args:
        rows: the runtime's tuple for each call site, which begins with kind and name.
        host_calls: structured array of the calls: ``begin``, ``end`` and ``waited`` are times in
            nanoseconds, ``row`` is an index into `rows`.
        ax: axes to draw into; None creates new axes.

    Returns:
        the axes.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Profile.plot draws with matplotlib, which is not installed: "
            "pip install matplotlib. Profile.save writes the same for Perfetto."
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=(10, 1 + 0.4 * len(rows)), layout="constrained")
    start = host_calls["begin"].min() if len(host_calls) else 0
    for index in range(len(rows)):
        calls = host_calls[host_calls["row"] == index]
        begin = (calls["begin"] - start) / 1e6
        waited, length = calls["waited"] / 1e6, (calls["end"] - calls["begin"]) / 1e6
        color, place = f"C{index % 10}", (index - 0.4, 0.8)
        ax.broken_barh(_to_ranges(begin + waited, length - waited), place, color=color)
        ax.broken_barh(_to_ranges(begin, waited), place, color=color, alpha=0.3)
    ax.set_yticks(range(len(rows)), [f"{name} ({kind})" for kind, name, *_ in rows])
    # matplotlib warns about equal limits, as without rows.
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    ax.set_xlabel("time (ms)")
    return ax


def _to_ranges(begin: Any, length: Any) -> Any:
    """Stack arrays to (begin, length) pairs, without pairs whose length is 0 or less."""
    return np.stack([begin, length], axis=1)[length > 0]
