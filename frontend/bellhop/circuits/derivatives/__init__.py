"""Derivatives of what runs in a circuit."""
