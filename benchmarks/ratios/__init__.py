"""`qjit` against `jax.jit`: the same functions, interleaved in one process or in pairs."""
