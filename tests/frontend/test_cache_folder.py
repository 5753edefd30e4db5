"""The folder of enable_cache: who may write to it."""

import contextlib
import warnings

import jax
import pytest

import bellhop

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(autouse=True)
def options():
    with contextlib.ExitStack() as stack:
        before = {name: getattr(jax.config, name) for name in OPTIONS}
        stack.callback(lambda: [jax.config.update(*each) for each in before.items()])
        yield


def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(PermissionError, match="everybody may write to"):
        bellhop.enable_cache(tmp_path, group_may_write=True)
    assert jax.config.jax_compilation_cache_dir != str(tmp_path)


def test_a_folder_that_a_group_may_write_to_is_warned_of(tmp_path):
    tmp_path.chmod(0o770)
    with pytest.warns(UserWarning, match="a group may write to"):
        bellhop.enable_cache(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bellhop.enable_cache(tmp_path, group_may_write=True)


def test_a_folder_that_is_made_is_its_owners(tmp_path):
    folder = tmp_path / "a" / "cache"
    bellhop.enable_cache(folder)
    assert folder.stat().st_mode & 0o022 == 0
