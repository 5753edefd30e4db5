"""Formatting of byte counts."""


def format_bytes(count: int) -> str:
    """Format a number of bytes with a unit: ``1.5 kB`` for 1500, ``""`` for 0."""
    if count == 0:
        return ""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        # 999.7 kB has three digits as 1 MB.
        if amount < 999.5:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"
