"""The exceptions that bellhop raises on purpose."""


class CompileError(Exception):
    """A program cannot be compiled; the message says what, where and what to do."""


class DifferentiableCompileError(CompileError):
    """A program cannot be differentiated as it is asked to be."""


class AutoGraphError(Exception):
    """A function's Python control flow cannot be converted as it is asked to be."""
