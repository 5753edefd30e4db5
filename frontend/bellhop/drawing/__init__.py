"""Hybrid programs as pictures."""
