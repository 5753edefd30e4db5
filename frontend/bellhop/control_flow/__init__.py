"""Loops and conditionals that are compiled as such, around circuits and inside them."""
