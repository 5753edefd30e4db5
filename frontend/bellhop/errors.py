"""The exceptions that bellhop raises on purpose."""


class CompileError(Exception):
    """A program cannot be compiled; the message says what, where and what to do."""


class DifferentiableCompileError(CompileError):
    """A program cannot be differentiated as it is asked to be."""


class AutoGraphError(Exception):
    """A function's Python control flow cannot be converted as it is asked to be."""


class CallbackException(Exception):  # noqa: N818, a name that is known from host_callback
    """Tapped functions raised; the last exception is the cause.

    Attributes:
        exceptions: what they raised, in order.  Of very many, the first ones and the last one.
    """

    exceptions: tuple[BaseException, ...] = ()
