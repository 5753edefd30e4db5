"""Files that are signed, and how files are written."""

import os
import stat
import threading

import pytest
from repacked_files import members_of, repack

import bellhop

KEY = b"a key of nobody else"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.bellhop"


@pytest.fixture(scope="module")
def double():
    double = bellhop.qjit(lambda x: 2 * x)
    double(1.0)
    return double


def test_a_signed_file_is_read_with_its_key_and_without(double, path):
    double.save(path, key=KEY)
    assert bellhop.load(path, key=KEY)(3.0) == 6
    assert bellhop.load(path)(3.0) == 6
    assert bellhop.load(path, key=KEY.decode())(3.0) == 6


def test_a_missing_signature_is_an_error_where_a_key_is_given(double, path):
    double.save(path)
    for trust in (False, True):
        with pytest.raises(
            bellhop.CompileError, match="the file has no signature, but load was called with a key"
        ):
            bellhop.load(path, key=KEY, trust=trust)


def test_another_key_is_an_error(double, path):
    double.save(path, key=KEY)
    with pytest.raises(bellhop.CompileError, match="the file's signature does not match"):
        bellhop.load(path, key=b"another key", trust=True)


def test_every_byte_is_signed(double, path):
    double.save(path, key=KEY)
    content = path.read_bytes()
    for place in (0, len(content) // 3, len(content) // 2, len(content) - 70, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(
            bellhop.CompileError, match="no signature|the file's signature does not"
        ):
            bellhop.load(path, key=KEY)
    for changed in (b"x" + content, content + b"x", content[:-1], content[:70], b""):
        path.write_bytes(changed)
        with pytest.raises(
            bellhop.CompileError, match="no signature|the file's signature does not"
        ):
            bellhop.load(path, key=KEY)


def test_a_repacked_file_is_not_signed(double, path):
    double.save(path, key=KEY)
    repack(path, members_of(path))
    assert bellhop.load(path)(3.0) == 6
    with pytest.raises(bellhop.CompileError, match="the file has no signature"):
        bellhop.load(path, key=KEY)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (3, TypeError, "a key must be bytes or a str, got int"),
        (b"", ValueError, "a key must have at least one byte"),
    ],
)
def test_keys(double, path, key, error, message):
    with pytest.raises(error, match=message):
        double.save(path, key=key)
    double.save(path)
    with pytest.raises(error, match=message):
        bellhop.load(path, key=key)


def test_threads_that_save_to_one_path(double, path):
    errors = []

    def work():
        try:
            for _ in range(5):
                double.save(path)
                bellhop.load(path)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert os.listdir(path.parent) == [path.name]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_a_file_that_cannot_be_written_leaves_nothing(double, path):
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        double.save(path)
    assert os.listdir(path.parent) == [path.name]
