"""Signatures of saved files: who has the key wrote every byte.

A signed file ends with a space and 64 hexadecimal digits, the HMAC-SHA256 of all bytes before these
digits.  To a reader of zip archives they are the end of the comment.
"""

import hashlib
import hmac

from bellhop.errors import CompileError

_DIGITS = 2 * hashlib.sha256().digest_size
# What a comment ends with before the file is signed.
ROOM = b" " + b"0" * _DIGITS


def as_key(key: object) -> bytes:
    """Return the bytes of a key that a user gives.

    Raises:
        TypeError: where it is neither bytes nor a string.
        ValueError: where it is empty.
    """
    if isinstance(key, str):
        key = key.encode()
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(
            f"a key is bytes or a str, and is given {type(key).__name__}. "
            "Use secrets.token_bytes(32)."
        )
    if not key:
        raise ValueError("a key has one byte or more, and is empty. Use secrets.token_bytes(32).")
    return bytes(key)


def sign(content: bytes, key: bytes) -> bytes:
    """Return a file with its signature; it ends with ``ROOM`` for one."""
    signed = content[:-_DIGITS]
    return signed + _signature(signed, key)


def verify(content: bytes, key: bytes) -> None:
    """Refuse a file that nobody who has the key has written.

    Args:
        content: the whole file.
        key: the one that it was signed with.

    Raises:
        CompileError: where it has no signature, or another one.
    """
    signed, signature = content[:-_DIGITS], content[-_DIGITS:]
    if hmac.compare_digest(signature, _signature(signed, key)):
        return
    if not signed.endswith(b" "):
        raise CompileError(
            "it has no signature, and load was given a key. Save it with f.save(path, key=key), or "
            "load it without a key where you know whom it is from."
        )
    raise CompileError(
        "its signature is not that of the key: the file was changed, or was signed with another "
        "key. Get the file again from where you trust it, or give the key of f.save(path, key=key)."
    )


def digest_of(comment: bytes) -> bytes:
    """Return the part of a file's comment that is not its signature."""
    return comment.partition(b" ")[0]


def _signature(signed: bytes, key: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).hexdigest().encode()
