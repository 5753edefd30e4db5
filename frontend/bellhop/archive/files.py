"""Reading a saved file at once, and replacing it at once."""

import contextlib
import os
import tempfile
from pathlib import Path

_STATUS = Path("/proc/self/status")


def as_path(called: str, path: object) -> Path:
    """Return a path of the user's as a ``Path``.

    Args:
        called: the function that was called, for the error.
        path: the argument of the user.

    Raises:
        TypeError: where it is neither a string nor an ``os.PathLike``.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{called} takes a path, a str or an os.PathLike, and is given {path!r}.")
    return Path(path)


def read_file(path: Path) -> bytes:
    """Return the content of a saved file, read once.

    Raises:
        OSError: naming what to give instead.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        # Of its number, Python makes the same type.
        raise OSError(
            error.errno,
            f"bellhop.load cannot read it: {error.strerror}. Give the path that f.save(path) wrote",
            str(path),
        ) from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file in the place of the one at ``path``, if there is one.

    A reader sees the former file or the new one, and never a part.  The new file is written beside
    it under a name that nobody can know before, and is opened only if nothing has that name: so no
    symbolic link is followed, and writers of one path do not meet.

    Args:
        path: of the file; its directory exists.
        content: all of it.
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
    """Return the permissions that new files of this process do not get."""
    # To ask by os.umask is to change it for all threads for a moment.
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
