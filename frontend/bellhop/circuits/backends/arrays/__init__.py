"""The backend that simulates circuits as JAX arrays inside the compiled program."""
