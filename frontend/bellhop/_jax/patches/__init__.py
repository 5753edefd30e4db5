"""Patches of JAX, one in each file, installed when a program first needs them."""
