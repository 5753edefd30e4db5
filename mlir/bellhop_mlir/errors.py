"""Exceptions for invalid modules and for unsupported programs."""


class VerificationError(ValueError):
    """A module breaks a rule of Bellhop's dialects or of untrusted modules.

    Verifiers raise it. The message describes the fault; a note may add the operation's location.
    """


class PassError(ValueError):
    """A pass does not support the program that it is applied to.

    The message is shown to the user, and names the cause and a remedy.
    """
