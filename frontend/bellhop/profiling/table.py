"""Profiles as tables."""

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table

from bellhop.profiling.format_bytes import format_bytes

if TYPE_CHECKING:
    from bellhop.profiling.profile_entry import ProfileRow


def make_table(rows: Sequence["ProfileRow"]) -> Table:
    """Make the printed table of a profile, with one line for each row.

    Args:
        rows: the rows of the profile, in the order in which they are shown.
    """
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for heading in ("kind", "function"):
        table.add_column(heading, overflow="fold", min_width=len(heading))
    for heading in ("calls", "total", "median", "GIL wait", "out", "in"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("line", overflow="fold")
    for row in rows:
        failed = f" ({row.failed} failed)" if row.failed else ""
        table.add_row(
            row.kind,
            row.name,
            f"{row.calls}{failed}",
            format_seconds(row.total),
            format_seconds(row.median),
            format_seconds(row.waited) if row.waited else "",
            format_bytes(row.bytes_out),
            format_bytes(row.bytes_in),
            os.path.basename(row.definition),
        )
    return table


def format_seconds(value: float) -> str:
    """Format a duration with a unit, such as ``1.5 ms``; an empty string for NaN."""
    if math.isnan(value):
        return ""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        # 999.7 ms has three digits as 1 s.
        if value * factor >= 0.9995:
            return f"{value * factor:.3g} {unit}" if value * factor < 999.5 else f"{value:.0f} s"
    return f"{value * 1e9:.0f} ns"
