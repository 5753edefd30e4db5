"""Keeping compiled programs from one process to the next."""

import os
from pathlib import Path

import jax


def enable_cache(path: str | os.PathLike[str]) -> None:
    """Keep compiled programs in a folder, so that another process need not compile them.

    This is JAX's persistent compilation cache, set to keep every program however small. It
    serves bellhop's programs, callbacks included, because they hold nothing of the process
    that made them; a callback whose closure changed is still the new one.

    Args:
        path: a folder; it is made if it is not there. Several processes may share it.

    Raises:
        NotADirectoryError: if there is something else under that name.

    Example:
        >>> import bellhop, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bellhop.enable_cache(folder)
        >>> float(bellhop.qjit(lambda x: 2 * x)(1.0))
        2.0
        >>> any("cache" in name for name in os.listdir(folder))
        True
    """
    folder = Path(path).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"{folder} is not a folder, so it cannot hold compiled programs. Give the "
            "path of a folder, or of none."
        )
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
