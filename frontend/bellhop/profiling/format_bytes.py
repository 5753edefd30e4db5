"""Numbers of bytes, as read by people."""


def format_bytes(count: int) -> str:
    """Return a number of bytes with a unit that suits it; nothing for none."""
    if count == 0:
        return ""
    amount = float(count)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} GB"
