"""Names of the types that cross rooms.

The tracer of an array counts as that array, as in JAX's own annotations.
"""

from collections.abc import Hashable, Mapping
from typing import Any, TypeAlias

import jax
from jax.core import AbstractValue
from jax.typing import ArrayLike

#: What a primitive takes or returns: an array, or for an operand a number in its place.
Operand: TypeAlias = ArrayLike
#: The handle of a circuit's state, u32[2].
Handle: TypeAlias = jax.Array
#: The label of a wire, or one that the program computes.
Wire: TypeAlias = Hashable | jax.Array
#: Arrays, numbers and other leaves in containers that JAX knows.
PyTree: TypeAlias = Any
#: What a user's function is called with.
Args: TypeAlias = tuple[PyTree, ...]
Kwargs: TypeAlias = Mapping[str, PyTree]
#: The type of a value of a program.
Aval: TypeAlias = AbstractValue
