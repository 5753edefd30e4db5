"""NumPy's print options where programs print: those of the caller, on whatever thread it happens.

NumPy keeps them in the context of a thread, and a thread of XLA's has none.
"""

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import numpy as np

_of_latest_call: dict[str, Any] = {}


def keep_print_options() -> None:
    """Keep the options in force here for what the program that is called now prints."""
    global _of_latest_call
    _of_latest_call = dict(np.get_printoptions())


@contextlib.contextmanager
def print_options_of_caller() -> Iterator[None]:
    """Print inside with the options of the caller of the program, the latest one."""
    if len(contextvars.copy_context()):
        yield
        return
    with np.printoptions(**_of_latest_call):
        yield
