"""Files that somebody else wrote, or that were damaged: data, of which nothing is believed."""

import contextlib
import io
import json
import re
import sys
import tracemalloc
import zipfile
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import saved_programs as programs
from hypothesis import given, settings
from hypothesis import strategies as st
from repacked_files import members_of, repack

import bellhop
from bellhop.archive import archive
from bellhop.archive.archive import digest


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.bellhop"


def rewrite(path, *, metadata=lambda data: data, module=lambda text: text):
    """Write a file again, with what was changed of what is in it."""
    members = members_of(path)
    data, text = json.loads(members["metadata.json"]), members["0.mlir"].decode()
    changed = {"metadata.json": json.dumps(metadata(data)), "0.mlir": module(text)}
    repack(path, {name: content.encode() for name, content in changed.items()})


def saved(function, path, *arguments):
    f = bellhop.qjit(function)
    f(*arguments)
    f.save(path)
    return path


def test_nothing_is_imported_that_a_file_names(path, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    saved(lambda x: bellhop.pure_callback(programs.divide, float)(x), path, 1.0)
    rewrite(path, metadata=lambda data: renamed(data, "evil:f"))
    with pytest.raises(bellhop.CompileError, match=r"not passed to load: evil:f. Pass them"):
        bellhop.load(path)
    assert "evil" not in sys.modules


def renamed(data, name):
    (target,) = data["programs"][0]["targets"]
    target["function"]["name"] = name
    return data


def test_functions_are_given_by_name(path):
    f = bellhop.qjit(programs.with_callbacks)
    f.save(path)
    with pytest.raises(bellhop.CompileError, match="saved_programs:divide, .*:record, .*:sine"):
        bellhop.load(path)
    names = ("divide", "record", "sine")
    given = {f"saved_programs:{name}": getattr(programs, name) for name in names}
    assert bellhop.load(path, functions=given)(1.5, 3) == f(1.5, 3)
    instead = given | {"saved_programs:divide": lambda x: np.float64(-1.0)}
    assert bellhop.load(path, functions=instead)(1.5, 3)["rest"][0] == -1
    with pytest.raises(TypeError, match="expected a function or a class"):
        bellhop.load(path, functions={"saved_programs:divide": 1})
    with pytest.raises(
        bellhop.CompileError,
        match=r"not passed to load: .*:divide.* \(load got divide\)\. Pass them",
    ):
        bellhop.load(path, functions={"divide": programs.divide})


def test_named_tuples_are_given_by_name(path):
    saved(lambda p: programs.Pair(p.b, jnp.linalg.eigh(p.a)), path, programs.Pair(np.eye(2), 1.0))
    with pytest.raises(
        bellhop.CompileError,
        match="not passed to load: saved_programs:Pair",
    ):
        bellhop.load(path)
    with pytest.raises(bellhop.CompileError, match="Pass the class, load"):
        bellhop.load(path, functions={"saved_programs:Pair": dict})
    f = bellhop.load(path, functions={"saved_programs:Pair": programs.Pair})
    result = f(programs.Pair(np.eye(2), 2.0))
    # Those of JAX's are known.
    assert (result.a, result.b.eigenvalues[0]) == (2, 1)


def test_a_custom_call_of_an_address_is_no_program(path):
    call = "stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0) {mhlo.backend_config = {}}"
    saved(lambda x: 2 * x, path, 1.0)
    rewrite(
        path,
        module=lambda text: re.sub(r"stablehlo.multiply %\w+, %arg0", call, text).replace(
            f"{call} : tensor<f64>", f"{call} : (tensor<f64>) -> tensor<f64>"
        ),
    )
    with pytest.raises(bellhop.CompileError, match="cpu_callback, which is not a function of JAX"):
        bellhop.load(path)


def test_libraries_are_those_of_installed_devices(path, tmp_path):
    f = bellhop.qjit(programs.circuit)
    f.save(path)
    assert bellhop.load(path)(0.7)[0] == f(0.7)[0]
    (tmp_path / "evil.so").write_text("no library")
    for library, message in (
        (str(tmp_path / "evil.so"), f"{path}: .* on the device '.*evil.so', but no such device"),
        ("default.qubit", "on the device 'default.qubit', but no such device"),
    ):
        text = f'library = "{library}"'
        rewrite(path, module=lambda old, text=text: re.sub('library = "[^"]*"', text, old))
        with pytest.raises(bellhop.CompileError, match=message):
            bellhop.load(path)
    rewrite(path, module=lambda text: text.replace(library, "lightning.qubit"))
    rewrite(path, module=lambda text: text.replace('"LightningSimulator"', '"GOMP_"'))
    with pytest.raises(bellhop.CompileError, match="creates devices by 'GOMP_', expected"):
        bellhop.load(path)


def test_a_library_that_no_device_has_is_not_saved(path, monkeypatch):
    f = bellhop.qjit(programs.circuit)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    with pytest.raises(bellhop.CompileError, match="no installed device has this library"):
        f.save(path)


def linear_algebra(a: jax.ShapeDtypeStruct((2, 3, 3), float)):
    linalg = jnp.linalg
    results = [linalg.eigh(a), linalg.svd(a), linalg.qr(a), linalg.eig(a), linalg.solve(a, a)]
    return *results, linalg.cholesky(a), jax.scipy.linalg.schur(a[0]), linalg.slogdet(a + 1j)


def test_linear_algebra_is_jaxs_own(path, run_script):
    bellhop.qjit(linear_algebra).save(path)
    # Where nothing else has loaded LAPACK.
    script = """
        import bellhop, numpy as np, sys
        leaves = bellhop.jax.tree.leaves(bellhop.load({path!r})(np.eye(3) * np.ones((2, 1, 1))))
        print(sum(float(abs(leaf).sum()) for leaf in leaves))
    """
    script = script.replace("bellhop.jax", "__import__('jax')")
    expected = linear_algebra(np.eye(3) * np.ones((2, 1, 1)))
    total = sum(float(abs(leaf).sum()) for leaf in jax.tree.leaves(expected))
    assert float(run_script(script.format(path=str(path)))) == pytest.approx(total)


PARTS = {
    "a bomb": (None, lambda text: " " * 2**27, "would expand beyond the limit"),
    "another @main": (None, lambda text: text.replace("@main", "@other"), "has no function @main"),
    "a region elsewhere": (
        None,
        lambda text: text.replace('device = "cpu:1"', 'device = "tpu:0"'),
        "a region of the saved program runs on tpu:0, but this process has",
    ),
    "other types": (
        lambda data: data["programs"][0]["in_avals"][0].update(dtype="float32"),
        None,
        "has @main with the unexpected type",
    ),
    "unknown types": (
        lambda data: data["programs"][0]["in_avals"][0].update(shape=[-1]),
        None,
        r"an array of type float64\[-1\], which does not exist",
    ),
    "too many leaves": (
        lambda data: data["programs"][0]["in_avals"].append(data["programs"][0]["in_avals"][0]),
        None,
        "does not have one entry for each leaf",
    ),
    "no arguments": (
        lambda data: data["programs"][0].update(in_tree="*"),
        None,
        "the program's arguments have the wrong structure",
    ),
    "keys in no order": (
        lambda data: data["programs"][0].update(
            out_tree={"kind": "dict", "keys": ["a", 1], "children": ["*", None]}
        ),
        None,
        "a pytree that is not valid",
    ),
    "a seed": (lambda data: data.update(seed=-1), None, "seed must be an integer from 0"),
    "a missing field": (
        lambda data: data.pop("seed"),
        None,
        "the file.s metadata.json has an unexpected type",
    ),
    "another callback": (
        lambda data: data["programs"][0]["targets"].clear(),
        None,
        "the file's module gives @cos the index 0, expected",
    ),
    "a callback of another type": (
        lambda data: data["programs"][0]["targets"][0].update(in_tree=None),
        None,
        "the file's module declares @cos with the unexpected type",
    ),
    "a native call of a Python function": (
        None,
        lambda text: text.replace('kind = "pure"', 'kind = "native"'),
        "calls a pure_callback by a call of kind 'native'",
    ),
    "a callback of another kind": (
        lambda data: data["programs"][0]["targets"][0].update(asynchronous=True),
        None,
        "calls a pure_callback by a call of kind 'pure'",
    ),
    "a function of ours": (
        lambda data: data["programs"][0]["targets"][0].update(
            function={"kind": "bellhop", "name": "exit", "arguments": None}
        ),
        None,
        "the file calls a function 'exit' that bellhop does not have",
    ),
    "the base class of our functions": (
        lambda data: data["programs"][0]["targets"][0].update(
            function={
                "kind": "bellhop",
                "name": "bellhop.compiler.builtin_function:BuiltinFunction",
                "arguments": [],
            }
        ),
        None,
        "BuiltinFunction' that bellhop does not have",
    ),
    "a name that clears the terminal": (
        lambda data: data.update(name="\x1b[2J"),
        None,
        r"the function.s name '\\x1b\[2J' has characters that cannot be printed",
    ),
}


@pytest.fixture(scope="module")
def with_a_region(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "function.bellhop"
    bellhop.qjit(programs.with_a_region).save(path)
    return path.read_bytes()


@pytest.mark.parametrize(("metadata", "module", "message"), PARTS.values(), ids=PARTS)
def test_a_file_with_a_wrong_part_is_named(path, with_a_region, metadata, module, message):
    path.write_bytes(with_a_region)

    def change(data):
        metadata(data)
        return data

    changes = {"metadata": change if metadata else None, "module": module}
    rewrite(path, **{name: each for name, each in changes.items() if each})
    with pytest.raises(bellhop.CompileError, match=f"{re.escape(str(path))} is not .*{message}"):
        bellhop.load(path, trust=True)


def test_options_of_a_device_are_read_before_its_plugin_reads_them(path):
    bellhop.qjit(programs.circuit).save(path)
    rewrite(path, module=lambda text: re.sub('kwargs = "[^"]*"', 'kwargs = "{"', text))
    with pytest.raises(bellhop.CompileError, match="a device with invalid options"):
        bellhop.load(path)


def test_what_xla_refuses_is_the_file(path):
    bellhop.qjit(programs.circuit).save(path)
    # More parameters than an RX has.
    rewrite(path, module=lambda text: text.replace("array<i64: 0, 0, 1", "array<i64: 0, 0, -9"))
    f = bellhop.load(path)
    with pytest.raises(
        bellhop.CompileError,
        match=f"{re.escape(str(path))} cannot run here: .* Save it again with this version",
    ):
        f(0.7)


@pytest.mark.parametrize("name", ["metadata.json", "0.mlir", "0.xla"])
def test_a_file_that_was_changed(path, name):
    f = bellhop.qjit(programs.circuit)
    f.save(path, compiled=True)
    with zipfile.ZipFile(path) as file:
        comment = file.comment
    members = members_of(path)
    # Another program that can be read, in which one number is another one.
    place = max(at for at, byte in enumerate(members[name]) if byte in b"0123456789")
    changed = bytearray(members[name])
    changed[place] ^= 1
    repack(path, members | {name: bytes(changed)}, comment=comment)
    with pytest.raises(
        bellhop.CompileError,
        match=f"{path}: the file is damaged: it was changed after it was saved",
    ):
        bellhop.load(path, trust=True)


def test_a_file_that_is_packed_in_another_way(with_a_region, path):
    with zipfile.ZipFile(io.BytesIO(with_a_region)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        for name, content in members.items():
            file.writestr(name, content)
    content = path.read_bytes()
    # What is damaged raises another error in each packing.
    path.write_bytes(content.replace(b"BZh", b"XXX"))
    with pytest.raises(
        bellhop.CompileError, match=f"{path}.*the file.s compression method is not supported"
    ):
        bellhop.load(path)


def test_two_members_with_one_name(with_a_region, path):
    path.write_bytes(with_a_region)
    members = members_of(path)
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("0.mlir", members["0.mlir"])
        file.comment = digest(members)
    with pytest.raises(bellhop.CompileError, match="two members with the name '0.mlir'"):
        bellhop.load(path)


def test_a_member_that_unpacks_to_more_than_it_declares(with_a_region, path):
    path.write_bytes(with_a_region)
    members = members_of(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
        file.writestr("zeros", bytes(2**26))
        zeros = file.getinfo("zeros")
        zeros.file_size, zeros.CRC = 9, zlib.crc32(bytes(9))
        file.comment = digest(members | {"zeros": bytes(9)})
    tracemalloc.start()
    try:
        bellhop.load(path, functions={"numpy:cos": np.cos})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**24


def test_metadata_that_would_fill_the_memory(path, monkeypatch):
    f = bellhop.qjit(programs.circuit)
    f.save(path)
    size = len(members_of(path)["metadata.json"])
    monkeypatch.setattr(archive, "_LARGEST_METADATA", size - 1)
    with pytest.raises(
        bellhop.CompileError, match=f"the file's metadata has {size} bytes, expected at"
    ):
        bellhop.load(path)
    with pytest.raises(bellhop.CompileError, match=f"cannot be saved: its metadata has {size} by"):
        f.save(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("os:system"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+|[%@#!]?[\w.$]+|\s+|.')


@pytest.mark.large
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_damaged_files_are_refused_or_load(with_a_region, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "damaged"
    content = bytearray(with_a_region)
    kind = data.draw(st.sampled_from(["bytes", "end", "metadata", "module"]))
    if kind == "bytes":
        for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
            content[place] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "end":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    path.write_bytes(content)
    if kind == "metadata":
        rewrite(path, metadata=lambda record: changed(record, data))
    elif kind == "module":
        rewrite(path, module=lambda text: shuffled(text, data))
    with contextlib.suppress(bellhop.CompileError):
        bellhop.load(path, trust=True)


def changed(record, data):
    """Return a record with one part of it, however deep, replaced."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not place[key] or not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            return record
        place = place[key]


def shuffled(text, data):
    """Return a text with some of its words in the place of others."""
    words = TOKEN.findall(text)
    places = st.integers(0, len(words) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        words[data.draw(places)] = data.draw(st.sampled_from(["", "-1", *words]))
    return "".join(words)
