"""Atomic reading and replacement of files."""

import contextlib
import os
import tempfile
from pathlib import Path

_STATUS = Path("/proc/self/status")


def as_path(function_name: str, path: object) -> Path:
    """Convert the path that a user passed to a function to a ``Path``.

    Args:
        function_name: name of the function, such as ``"bellhop.load"``, for the error.

    Raises:
        TypeError: if the path is neither a string nor an ``os.PathLike``.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{function_name} takes a path, a str or an os.PathLike, got {path!r}.")
    return Path(path)


def read_file(path: Path) -> bytes:
    """Read the whole content of the file that a user passed to ``bellhop.load``.

    Raises:
        OSError: if it cannot be read, with advice; the subclass is Python's, such as
            FileNotFoundError.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        # Python chooses the subclass by errno.
        raise OSError(
            error.errno,
            f"bellhop.load cannot read the file: {error.strerror}. Pass the path of a "
            "readable file that f.save(path) wrote",
            str(path),
        ) from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically, replacing an existing file.

    Readers see the old or the new file, never a part. The content is written to a new file with an
    unpredictable name in the same directory, so no symbolic link is followed, and concurrent
    writers do not interfere.

    Args:
        path: path of the file, in an existing directory.
    """
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o666 & ~_umask())
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise


def _umask() -> int:
    """Return the file mode creation mask of this process.

    It has the permission bits that new files do not get.
    """
    # os.umask can only read the mask by changing it for all threads, so read it from /proc.
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
