"""Files that would take much memory or time, or that write to the terminal."""

import inspect
import json
import re
import tracemalloc
import zipfile

import pytest
import saved_programs as programs
from repacked_files import members_of, repack

import bellhop
from bellhop.archive import archive
from bellhop.archive.schema import Malformed, read
from bellhop.archive.trees import Tree


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "function.bellhop"
    f = bellhop.qjit(programs.circuit)
    f.save(path)
    return path


def change(path, **fields):
    """Change fields of a file's metadata."""
    members = members_of(path)
    data = json.loads(members["metadata.json"]) | fields
    repack(path, members | {"metadata.json": json.dumps(data).encode()})


def test_a_wide_tree_in_a_deep_tree():
    tree = {"kind": "tuple", "children": [None] * 20_000}
    for _ in range(60):
        tree = {"kind": "tuple", "children": [tree]}
    tracemalloc.start()
    read(Tree, tree, "tree")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A path for each element would take 20 MB.
    assert peak < 2**21
    tree["children"][0]["children"][0]["kind"] = "set"
    with pytest.raises(Malformed, match=r"tree\.children\[0\]\.children\[0\] has an unexp"):
        read(Tree, tree, "tree")


def test_metadata_of_many_values(path, monkeypatch):
    monkeypatch.setattr(archive, "_MOST_SEPARATORS", 9)
    with pytest.raises(bellhop.CompileError, match="separators .*, expected at most 9"):
        bellhop.load(path)
    with pytest.raises(bellhop.CompileError, match="cannot be saved: its metadata has .* separat"):
        bellhop.qjit(programs.circuit).save(path)


def test_too_many_programs(path, monkeypatch):
    (program,) = json.loads(members_of(path)["metadata.json"])["programs"]
    monkeypatch.setattr(archive, "MOST_PROGRAMS", 1)
    bellhop.load(path)
    change(path, programs=[program] * 2)
    with pytest.raises(bellhop.CompileError, match="has 2 programs, expected 1 to 1"):
        bellhop.load(path)
    change(path, programs=[])
    with pytest.raises(bellhop.CompileError, match="has 0 programs, expected 1 to 1"):
        bellhop.load(path)
    f = bellhop.qjit(lambda x: x)
    f.jit_compile((1.0,))
    f.jit_compile((1,))
    with pytest.raises(bellhop.CompileError, match="has 2 programs, expected at most 1. Compile"):
        f.save(path)


def test_too_many_members(path, monkeypatch):
    members = members_of(path)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
        for number in range(5000):
            file.writestr(zipfile.ZipInfo(f"{number}/"), b"")
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(bellhop.CompileError, match="more than 4002 signatures of members"):
        bellhop.load(path)


def test_an_array_of_more_axes_than_numpy_has(path):
    (program,) = json.loads(members_of(path)["metadata.json"])["programs"]
    program["in_avals"] = [{"shape": [1] * 65, "dtype": "float64", "weak": False}]
    change(path, programs=[program])
    with pytest.raises(bellhop.CompileError, match=r"float64\[1, .*\.\.\.\], which does not exist"):
        bellhop.load(path)


@pytest.mark.parametrize("error", [OverflowError("too large"), AssertionError(), TypeError("a")])
def test_any_exception_of_a_library_names_the_file(path, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(archive, "decode_signature", fail)
    said = str(error) or "AssertionError"
    with pytest.raises(bellhop.CompileError, match=f"{re.escape(str(path))} is not .*: {said}"):
        bellhop.load(path)


def test_a_directory_of_numbers_that_python_cannot_hold(path):
    # zipfile raises OverflowError for this offset.
    content = path.read_bytes()
    place = content.index(b"PK\1\2")
    name = b"metadata.json"
    extra = b"\1\0\x18\0" + b"\4" + bytes(15) + b"\xff" * 8
    entry = content[place : place + 46][:20] + b"\xff" * 8 + content[place + 28 : place + 30]
    entry += len(extra).to_bytes(2, "little") + bytes(8) + b"\xff" * 4 + name + extra
    end = b"PK\5\6\0\0\0\0\1\0\1\0" + len(entry).to_bytes(4, "little")
    path.write_bytes(content[:place] + entry + end + place.to_bytes(4, "little") + b"\0\0")
    with pytest.raises(bellhop.CompileError, match=re.escape(str(path))):
        bellhop.load(path)


def test_no_text_of_a_file_controls_the_terminal(path):
    erase = "\x1b[2J"
    members = members_of(path)
    signature = json.loads(members["metadata.json"])["signature"]
    (parameter,) = signature["parameters"]
    parameter |= {"annotation": erase, "default": {"kind": "text", "text": erase}}
    change(path, signature=signature | {"doc": f"One.\n{erase}", "returns": erase})
    loaded = bellhop.load(path)
    shown = str(inspect.signature(loaded))
    assert "\\x1b[2J" in shown
    assert erase not in shown
    assert loaded.__doc__ == "One.\n\\x1b[2J"
    for attribute in ("library", "site", "name"):
        text = re.sub(rb'(\b%s = )"[^"]*"' % attribute.encode(), rb'\1"\\1B[2J"', members["0.mlir"])
        assert text != members["0.mlir"]
        # A gate that the table does not have.
        text = text.replace(b"array<i64: 0, 0, 1", b"array<i64: 9, 0, 1")
        repack(path, members | {"0.mlir": text})
        with pytest.raises(bellhop.CompileError) as caught:
            bellhop.load(path)(0.7)
        assert erase not in str(caught.value)
