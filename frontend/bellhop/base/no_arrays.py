"""Values that JAX does not take for arrays, in words."""

import numpy as np


def described(value: object) -> str:
    """Return what a value is that is no array of JAX's, after an "is"."""
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of dtype {value.dtype}, which JAX does not have"
    return f"of type {type(value).__name__}, which is no array"


def advice(value: object) -> str:
    """Return what to do with an argument that is no array."""
    framework = type(value).__module__.partition(".")[0]
    if framework == "torch":
        return "Call it from PyTorch by bellhop.to_torch of it."
    if framework == "autograd":
        return "It is of PennyLane's autograd, give it by position; or use bellhop.grad."
    if isinstance(value, np.ndarray):
        # Not hashable, and so never static.
        return _conversion(value.dtype)
    return "Make it static (static_argnums, static_argnames) if it is part of the program."


def _conversion(dtype: np.dtype) -> str:
    if dtype.names is not None:
        return "Pass a dictionary of its fields, {name: x[name] for name in x.dtype.names}."
    if not dtype.isnative:
        return "Convert it, x.astype(x.dtype.newbyteorder('='))."
    return "Convert it to a type of numbers of at most 64 bits, as x.astype(float)."
