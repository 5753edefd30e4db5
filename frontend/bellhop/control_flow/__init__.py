"""Compiled loops and conditionals, with and without gates."""
