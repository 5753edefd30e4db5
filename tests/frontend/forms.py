"""The forms in which a function that calls out of a program is tried."""

import jax

import bellhop

FORMS = {"qjit": bellhop.qjit, "jit": jax.jit, "eager": lambda function: function}
