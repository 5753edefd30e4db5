"""Hints for errors of callbacks: read-only arguments, and results of another shape."""

import jax
import numpy as np

from bellhop.base.exception_attributes import add_note
from bellhop.base.instructions import is_in_place_assignment

_COPY = (
    "bellhop: the arguments of a callback are read-only. To write to one, copy it first: "
    "x = x.copy()."
)
_NUMPY = (
    "bellhop: the arguments of a callback are NumPy arrays, which have no attribute 'at'. Copy the "
    "argument and write to the copy (x = x.copy(); x[0] = 1), or convert it: jnp.asarray(x)."
)


def add_argument_hint(error: BaseException) -> None:
    """Add a note to an exception of a callback that misused its NumPy arguments.

    That is, it wrote to a read-only argument, or used ``x.at``. Other exceptions stay as they are,
    and so do exceptions that have the note already.
    """
    hint = _find_hint(error)
    if hint is not None and hint not in getattr(error, "__notes__", ()):
        add_note(error, hint)


def _find_hint(error: BaseException) -> str | None:
    """Find the advice for a callback's exception: the text of a note, or None.

    There is advice for an AttributeError of ``x.at`` where ``x`` is a NumPy array, and for a
    ValueError of an in-place assignment, such as ``x[0] = 1``, in a function with a read-only array
    among its local variables.
    """
    if isinstance(error, AttributeError):
        is_update = error.name == "at" and isinstance(error.obj, np.ndarray)
        return _NUMPY if is_update else None
    if not isinstance(error, ValueError) or error.__traceback__ is None:
        return None
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    # NumPy's own frames are C: the innermost Python frame is the line that writes the array.
    if not is_in_place_assignment(traceback.tb_frame.f_code, traceback.tb_lasti):
        return None
    values = traceback.tb_frame.f_locals.values()
    has_read_only = any(
        isinstance(value, np.ndarray) and not value.flags.writeable for value in values
    )
    return _COPY if has_read_only else None


def suggest_type(value: object, declared_shape: tuple[int, ...]) -> str:
    """Return advice to declare the type of a value of an unexpected shape.

    Args:
        value: value that a callback returned.
        declared_shape: shape in the callback's ``result_type``.

    Returns:
        the sentence with a leading space; an empty string if the value is not an array or has the
        declared shape.
    """
    if not isinstance(value, np.ndarray | jax.Array) or value.shape == declared_shape:
        return ""
    # Python's names are shorter than NumPy's names of the same types.
    names = {jax.dtypes.canonicalize_dtype(each): each.__name__ for each in (bool, int, float)}
    dtype = names.get(value.dtype, repr(value.dtype.name))
    return (
        f" To declare an array: result_type=jax.ShapeDtypeStruct({value.shape}, {dtype}), or "
        "result_type=bellhop.infer, which calls the function once with zeros."
    )
