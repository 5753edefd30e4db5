"""Faults that are known and open: what tells them, and where they are written down."""

KNOWN = {
    r"_loop: the structures differ": "issue 12, item 13",
}
