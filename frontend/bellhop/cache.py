"""Cache of compiled programs on disk, shared by processes."""

import os
import stat
from pathlib import Path

import jax

from bellhop.base.option_checks import check_option
from bellhop.base.public_function import public_function
from bellhop.base.source import warn_user


@public_function
def enable_cache(path: str | os.PathLike[str], *, group_may_write: bool = False) -> None:
    """Cache compiled programs in a folder that processes share.

    This configures JAX's persistent compilation cache to keep every program, however small.  It
    works for programs with callbacks too: a program holds no Python objects, and a callback whose
    closure changed is called with its new closure.

    The files are machine code, which a process loads and runs without a check.  Trust the folder
    like a folder of executables: everybody who may write to it, or to a folder above it, can run
    code in every process that uses it.

    Args:
        path: the folder. If it does not exist, it is created with write permission for its owner
            alone. Several processes may share it.
        group_may_write: whether to accept, without a warning, that the folder's group may write to
            it.

    Raises:
        TypeError: if `path` is not a string or an ``os.PathLike``.
        NotADirectoryError: if `path` is not a folder.
        PermissionError: if everybody may write to the folder.

    Warns:
        UserWarning: if a group may write to the folder, and ``group_may_write`` is false.

    Example:
        >>> import bellhop, os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bellhop.enable_cache(folder)
        >>> float(bellhop.qjit(lambda x: 2 * x)(1.0))
        2.0
        >>> any("cache" in name for name in os.listdir(folder))
        True
    """
    check_option("enable_cache", "path", path, str | os.PathLike, "the path of a folder")
    folder = Path(path).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(
            f"enable_cache: {folder} is not a folder, expected a folder or an unused path. Pass "
            "another path."
        )
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH:
        raise PermissionError(
            f"enable_cache: everybody may write to {folder} (mode {stat.filemode(mode)}), expected "
            "no write permission for others, as programs in it are executed. Remove the "
            "permission, chmod o-w, or pass a different folder."
        )
    if mode & stat.S_IWGRP and not group_may_write:
        warn_user(
            f"enable_cache: a group may write to {folder} (mode {stat.filemode(mode)}), and "
            "programs in it are executed. Remove the permission, chmod g-w, or pass "
            "group_may_write=True."
        )
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
