"""The Python exceptions behind failed runs of compiled programs."""

import re

import jax

from bellhop_runtime import take_failure

# What a failed run raises: cached calls take a path of JAX's that raises ValueError.
RUN_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

# The last one: an exception's own text may quote that of another run.
_FAILURE = re.compile(r".*\[bellhop failure (\d+)\]", re.DOTALL)


def python_failure(error: Exception) -> BaseException | None:
    """Return the exception that a callback raised in a run, if ``error`` comes of that."""
    match = _FAILURE.match(str(error))
    return None if match is None else take_failure(int(match[1]))
