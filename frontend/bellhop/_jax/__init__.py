"""What of JAX is not public, and what of it is replaced."""
