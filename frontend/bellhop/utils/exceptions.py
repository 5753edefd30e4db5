"""The exceptions of ``bellhop.errors``, where users of Catalyst look for them."""

from bellhop.errors import AutoGraphError, CompileError, DifferentiableCompileError

__all__ = ["AutoGraphError", "CompileError", "DifferentiableCompileError"]
