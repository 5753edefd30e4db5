"""Faults that are known and open: what tells them, and where they are written down."""

KNOWN: dict[str, str] = {}
