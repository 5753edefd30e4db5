"""What can be wrong with a program, as exceptions."""


class VerificationError(ValueError):
    """An operation of our dialects breaks the dialect's rules."""


class PassError(ValueError):
    """A pass met a program that it refuses."""
