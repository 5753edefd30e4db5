"""The Python exceptions behind failed runs of compiled programs."""

import re

import jax

from bellhop._jax_compat import raise_what_failed
from bellhop_runtime import take_failure

# What a failed run raises: cached calls take a path of JAX's that raises ValueError.
RUN_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

# The last one: an exception's own text may quote that of another run.
_FAILURE = re.compile(r".*\[bellhop failure (\d+)\]", re.DOTALL)
_PLAIN_FAILURE = re.compile(r".*\[bellhop plain jit failure (\d+)\]", re.DOTALL)


def python_failure(error: Exception) -> BaseException | None:
    """Return the exception that a callback raised in a run of ours, if ``error`` comes of that."""
    return _waiting(_FAILURE.match(str(error)))


def _plain_failure(text: str) -> BaseException | None:
    return _waiting(_PLAIN_FAILURE.match(text))


def _waiting(match: re.Match[str] | None) -> BaseException | None:
    return None if match is None else take_failure(int(match[1]))


# Nobody of ours stands between a plain jit and its caller.
raise_what_failed(_plain_failure)
