"""Scalars that are computed alike become vectors."""
