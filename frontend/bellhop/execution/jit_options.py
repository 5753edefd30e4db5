"""The options of the ``jax.jit`` that a qjit function's programs are embedded into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bellhop.arguments.static_arguments import Donated


@dataclass(frozen=True)
class JitOptions:
    """Options of ``jax.jit`` that mean the same for a qjit function.

    Attributes:
        donated: the arguments whose memory the program may take for its results.
        keep_unused: whether the executable takes arguments that the function does not use.
        compiler_options: XLA options by name.
    """

    donated: Donated = field(default_factory=Donated)
    keep_unused: bool = False
    compiler_options: Mapping[str, Any] = field(default_factory=dict)
