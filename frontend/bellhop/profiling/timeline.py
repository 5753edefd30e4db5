"""A profile as a timeline."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_timeline(
    rows: Sequence[tuple[Any, ...]], crossings: Any, ax: "Axes | None" = None
) -> "Axes":
    """Plot crossings over time, a line for each row, in milliseconds from the first one on.

    Args:
        rows: what the runtime tells of each place.
        crossings: the array of them.
        ax: where to.

    Raises:
        ImportError: where there is no matplotlib.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "Profile.plot draws with matplotlib, which is not installed: "
            "pip install 'pennylane-bellhop[plot]'. Profile.save writes the same for Perfetto."
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=(10, 1 + 0.4 * len(rows)), layout="constrained")
    start = crossings["begin"].min() if len(crossings) else 0
    for index in range(len(rows)):
        mine = crossings[crossings["row"] == index]
        begin = (mine["begin"] - start) / 1e6
        waited, length = mine["waited"] / 1e6, (mine["end"] - mine["begin"]) / 1e6
        color, place = f"C{index % 10}", (index - 0.4, 0.8)
        ax.broken_barh(_to_ranges(begin + waited, length - waited), place, color=color)
        ax.broken_barh(_to_ranges(begin, waited), place, color=color, alpha=0.3)
    ax.set_yticks(range(len(rows)), [f"{name} ({kind})" for kind, name, *_ in rows])
    # matplotlib warns of limits that are the same, where there are no rows.
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    ax.set_xlabel("time (ms)")
    return ax


def _to_ranges(begin: Any, length: Any) -> Any:
    return np.stack([begin, length], axis=1)[length > 0]
