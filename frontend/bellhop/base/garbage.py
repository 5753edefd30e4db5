"""How often Python looks for garbage."""

import contextlib
import gc
from collections.abc import Iterator

# So many objects are some ten megabytes.
_OBJECTS = 50_000


@contextlib.contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Let Python look for garbage less often.

    What is made while a program is traced stays until it is optimised, so that to look for garbage
    among it every 700 objects is in vain, and a tenth of the time.
    """
    usual = gc.get_threshold()
    # Zero is never; another thread may be in here too.
    if usual[0] == 0 or usual[0] >= _OBJECTS:
        yield
        return
    gc.set_threshold(_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        if gc.get_threshold()[0] == _OBJECTS:
            gc.set_threshold(*usual)
