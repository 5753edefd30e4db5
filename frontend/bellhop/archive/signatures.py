"""HMAC signatures of saved files.

A signed file ends with a space and 64 hexadecimal digits, the HMAC-SHA256 of all preceding bytes.
Zip readers see them as the end of the archive's comment.
"""

import hashlib
import hmac

from bellhop.errors import CompileError

_DIGITS = 2 * hashlib.sha256().digest_size
# Placeholder of the signature in the comment.
PLACEHOLDER = b" " + b"0" * _DIGITS


def as_key(key: object, advice: str) -> bytes:
    """Convert the HMAC key that a user passed to ``save`` or ``load`` to bytes.

    Args:
        key: a bytes-like object, or a string, which is encoded as UTF-8.
        advice: a sentence for errors that says where the right key comes from.

    Raises:
        TypeError: if the key is neither bytes-like nor a string.
        ValueError: if the key is empty.
    """
    if isinstance(key, str):
        key = key.encode()
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(f"a key must be bytes or a str, got {type(key).__name__}. {advice}")
    if not key:
        raise ValueError(f"a key must have at least one byte, got none. {advice}")
    return bytes(key)


def sign(content: bytes, key: bytes) -> bytes:
    """Sign a file: replace the last 64 bytes by the HMAC of all bytes before them.

    Args:
        content: bytes of the whole file, which ends with ``PLACEHOLDER``.
        key: the HMAC key.

    Returns:
        bytes of the signed file.
    """
    signed = content[:-_DIGITS]
    return signed + _signature(signed, key)


def verify(content: bytes, key: bytes) -> None:
    """Raise an error unless a saved file has the right signature.

    Args:
        content: bytes of the whole file, whose last 64 bytes are the signature.
        key: the key with which the file must have been signed.

    Raises:
        CompileError: if the signature is missing or wrong.
    """
    signed, signature = content[:-_DIGITS], content[-_DIGITS:]
    if hmac.compare_digest(signature, _signature(signed, key)):
        return
    if not signed.endswith(b" "):
        raise CompileError(
            "the file has no signature, but load was called with a key. Save the function with "
            "f.save(path, key=key), or load the file without a key if you know its origin."
        )
    raise CompileError(
        "the file's signature does not match the key: the file was changed, or was signed with "
        "another key. Get the file from a trusted origin, or pass the key of f.save(path, "
        "key=key)."
    )


def get_digest(comment: bytes) -> bytes:
    """Return the SHA-256 digest in a zip archive's comment, without the HMAC that may follow."""
    return comment.partition(b" ")[0]


def _signature(signed: bytes, key: bytes) -> bytes:
    """Compute the HMAC-SHA256 of bytes, as 64 hexadecimal digits."""
    return hmac.new(key, signed, hashlib.sha256).hexdigest().encode()
