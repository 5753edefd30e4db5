"""Patches of JAX, one file each, installed when a program first needs them."""
