"""Cells of the support matrix that raise an error, and why."""

from dataclasses import dataclass

from tests.conformance.support import Cell


@dataclass(frozen=True)
class Unsupported:
    """Cells that raise one error.

    Attributes:
        device: name of the device.
        rows: rows of the cells; all rows if empty.
        columns: columns of the cells; all columns if empty.
        words: a part of the error's message.
        reason: what the page says.
    """

    device: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    words: str
    reason: str

    def has(self, cell: Cell) -> bool:
        """Return whether a cell raises this error."""
        return (
            cell.device == self.device
            and (not self.rows or cell.row in self.rows)
            and (not self.columns or cell.column in self.columns)
        )


