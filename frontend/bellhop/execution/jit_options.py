"""Options of the ``jax.jit`` that contains a qjit function's programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bellhop.arguments.static_arguments import Donated


@dataclass(frozen=True)
class JitOptions:
    """The options of ``qjit`` that are passed to the ``jax.jit`` with the program.

    Attributes:
        donated: dynamic arguments whose memory the program may reuse for its results.
        keep_unused: whether the executable takes unused arguments, too.
        compiler_options: XLA options by name; empty for XLA's defaults.
    """

    donated: Donated = field(default_factory=Donated)
    keep_unused: bool = False
    compiler_options: Mapping[str, Any] = field(default_factory=dict)
