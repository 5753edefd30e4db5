"""Private JAX API: names used unchanged, and ``patches`` that replace functions."""
