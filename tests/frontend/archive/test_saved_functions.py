"""Functions saved by one process and run by another."""

import functools
import json
import os
import zipfile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml
import pytest
import saved_programs as programs
import scipy.special
from repacked_files import members_of, repack

import bellhop


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.bellhop"


LOAD = """
    import jax, numpy as np, sys
    import bellhop
    f = bellhop.load({path!r}, trust=True)
    {code}
"""


@pytest.fixture
def in_another_process(run_script, path):
    def run(code):
        search = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
        return run_script(LOAD.format(path=str(path), code=code), PYTHONPATH=search).splitlines()

    return run


def test_callbacks_are_found_by_name(path, in_another_process):
    f = bellhop.qjit(programs.with_callbacks)
    f.save(path)
    expected = f(1.5, 3)
    printed, value = in_another_process("print(f(1.5, 3))")
    assert printed == "x = 1.5, n = 3"
    assert value == repr(expected)


@pytest.mark.parametrize("in_place", [False, True])
def test_callbacks_that_write_into_their_results(path, in_place):
    type_ = jax.ShapeDtypeStruct((2,), float)
    callback = bellhop.buffer_callback(programs.double, type_, in_place=in_place)
    f = bellhop.qjit(lambda x: callback(x))
    x = np.array([1.0, 2.0])
    f(x)
    f.save(path)
    np.testing.assert_array_equal(bellhop.load(path, trust=True)(x), [2.0, 4.0])


def test_exceptions_and_effects_are_as_before(path, capsys):
    bellhop.qjit(programs.with_callbacks).save(path)
    f = bellhop.load(path, trust=True)
    programs.seen.clear()
    f(2.0, 1)
    assert programs.seen == [2.0]
    with pytest.raises(RuntimeError, match="x is too large"):
        f(11.0, 1)
    with pytest.raises(ZeroDivisionError) as raised:
        f(0.0, 1)
    assert "raised in callback 'divide'" in raised.value.__notes__[0]
    assert f(2.0, 0)["y"] == 2.0


@pytest.mark.parametrize("name", ["with_a_region", "circuit", "gradient"])
def test_regions_circuits_and_derivatives(path, in_another_process, name):
    f = bellhop.qjit(getattr(programs, name))
    f.save(path)
    (value,) = in_another_process("print(jax.tree.leaves(f(0.7)))")
    assert value == repr(jax.tree.leaves(f(0.7)))


@pytest.mark.parametrize("device", ["default.qubit", "default.mixed", "lightning.qubit"])
def test_circuits_that_xla_runs(path, device):
    """Profiles list them from an attribute of the module, which the file keeps."""

    @bellhop.qjit
    @qml.qnode(qml.device(device, wires=2))
    def f(x):
        qml.RX(x, 0)
        qml.IsingXX(x, wires=[0, 1])
        return qml.expval(qml.Z(1)), qml.probs(wires=0)

    expected = f(0.3)
    f.save(path)
    for trust in (False, True):
        np.testing.assert_allclose(
            jnp.hstack(bellhop.load(path, trust=trust)(0.3)), jnp.hstack(expected)
        )


def test_outcomes_follow_the_seed_that_was_saved(path, in_another_process):
    f = bellhop.qjit(programs.samples, seed=7)
    f.save(path)
    expected = [np.asarray(f(0.7)).tolist() for _ in range(2)]
    (values,) = in_another_process("print([np.asarray(f(0.7)).tolist() for _ in range(2)])")
    assert values == repr(expected)


def test_loading_does_not_import_the_program(path, in_another_process):
    bellhop.qjit(programs.circuit).save(path)
    (imported,) = in_another_process("f(0.7); print('saved_programs' in sys.modules)")
    assert imported == "False"


def test_every_signature_is_saved(path):
    f = bellhop.qjit(programs.arrays)
    inputs = [
        {"m": np.ones((2, n)), "v": np.arange(n, dtype=dtype)}
        for n, dtype in ((2, float), (3, int))
    ]
    expected = [f(table) for table in inputs]
    f.save(path)
    g = bellhop.load(path, trust=True)
    for table, value in zip(inputs, expected, strict=True):
        np.testing.assert_array_equal(g(table), value)
        np.testing.assert_array_equal(g(jax.tree.map(jnp.asarray, table)), value)
    with pytest.raises(
        TypeError,
        match=r"called with \(table\['m'\]: float64\[4,4\].* has programs for .*; \(table\['m",
    ):
        g({"m": np.ones((4, 4)), "v": np.ones(4)})
    # Saved again, and from a file of a file.
    g.save(path)
    np.testing.assert_array_equal(bellhop.load(path, trust=True)(inputs[0]), expected[0])


class Pair(NamedTuple):
    a: object
    b: object


def test_structures(path):
    f = bellhop.qjit(lambda p, **named: (Pair(p.b, None), [named["x"]["k"]], {1: p.a}))
    expected = f(Pair(1.0, (2.0,)), x={"k": 3})
    f.save(path)
    result = bellhop.load(path, trust=True)(Pair(1.0, (2.0,)), x={"k": 3})
    assert result == expected
    assert isinstance(result[0], Pair)


def test_no_result(path):
    f = bellhop.qjit(lambda x: bellhop.debug.callback(programs.record)(x))
    f(1.0)
    f.save(path)
    programs.seen.clear()
    assert bellhop.load(path, trust=True)(3.0) is None
    assert programs.seen == [3.0]


def test_a_loaded_function_shows_what_it_can(path):
    bellhop.qjit(programs.with_a_region).save(path)
    f = bellhop.load(path, trust=True)
    assert repr(f) == "<qjit with_a_region>"
    f(1.0)
    assert "callback.accelerate" in f.mlir_opt
    assert "HloModule" in f.compiled_function.as_text()


@pytest.mark.parametrize("transform", [jax.grad, jax.vmap, jax.jit, bellhop.qjit])
def test_a_loaded_function_is_not_transformed(path, transform):
    f = bellhop.qjit(lambda x: x * 2)
    f(1.0)
    f.save(path)
    with pytest.raises(
        NotImplementedError, match="loaded from a file: differentiation, vmap and tracing"
    ):
        transform(bellhop.load(path, trust=True))(jnp.ones(2) if transform is jax.vmap else 1.0)


class Opaque:
    pass


jax.tree_util.register_pytree_node(Opaque, lambda _: ((), None), lambda *_: Opaque())


def local(x):
    def function(x):
        return x

    return bellhop.pure_callback(function, float)(x)


REFUSED = {
    "a local function": (
        local,
        "pure_callback 'function' .*test_saved_functions.py.* cannot be saved: .*"
        "Define the function at the top level",
    ),
    "a lambda": (
        lambda x: bellhop.debug.callback(lambda _: None)(x),
        "'<lambda>' .* cannot be saved",
    ),
    "a partial": (
        lambda x: bellhop.pure_callback(functools.partial(np.add, 1.0), float)(x),
        "a functools.partial has no name",
    ),
    "a bound method": (
        lambda x: bellhop.debug.callback([].append)(x),
        "callback 'append' .* cannot be saved",
    ),
    "a callback of JAX": (
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), float), x),
        "callbacks of JAX itself .* Use bellhop.pure_callback",
    ),
    "a structure": (
        lambda x: Opaque(),
        "the result of '<lambda>' .* has a node of type Opaque",
    ),
}


def test_a_ufunc_of_scipy_is_found_though_it_names_no_module(path):
    f = bellhop.qjit(bellhop.pure_callback(scipy.special.gamma, float))
    assert f(4.0) == 6.0
    f.save(path)
    assert bellhop.load(path, functions={"scipy.special:gamma": scipy.special.gamma})(5.0) == 24.0
    assert bellhop.load(path, trust=True)(5.0) == 24.0


@pytest.mark.parametrize(("function", "message"), REFUSED.values(), ids=REFUSED)
def test_what_another_process_cannot_have_is_named(path, function, message):
    f = bellhop.qjit(function)
    f(1.0)
    with pytest.raises(bellhop.CompileError, match=message):
        f.save(path)
    assert not path.exists()
    assert list(path.parent.iterdir()) == []


def test_saving_needs_a_program_without_static_arguments(path):
    with pytest.raises(bellhop.CompileError, match="has not been compiled"):
        bellhop.qjit(lambda x: x).save(path)
    f = bellhop.qjit(lambda x, n: x * n, static_argnums=1)
    f(1.0, 2)
    with pytest.raises(bellhop.CompileError, match="static arguments, which cannot be saved"):
        f.save(path)


def test_files_that_are_something_else(path):
    f = bellhop.qjit(programs.with_a_region)
    f.save(path)
    content = path.read_bytes()
    changed = path.with_name("changed")
    flipped = content[:100] + bytes([content[100] ^ 255]) + content[101:]
    np.savez(archive := path.with_name("arrays.npz"), np.ones(2))
    for other, message in (
        (b"", "the file is empty, expected a saved function. Copy"),
        (
            b"nothing",
            "the file is not a function that bellhop saved, but another kind of .* b'nothing'",
        ),
        (
            archive.read_bytes(),
            "the file is not a function that bellhop saved, but another zip archive",
        ),
        (content[: len(content) // 2], "the file is damaged: .*zip"),
        (flipped, "the file is damaged: .* Copy it again"),
    ):
        changed.write_bytes(other)
        with pytest.raises(bellhop.CompileError, match=f"^{changed}: {message}") as raised:
            bellhop.load(changed, trust=True)
        files = {frame.path for frame in raised.traceback[1:]}
        assert files <= {raised.traceback[0].path}
    for key, value, message in (
        ("format", 99, "another version of bellhop saved it: the file has format 99, expected"),
        ("contract", "0" * 64, "the file's programs call another runtime. Save the"),
        ("x64", False, "saved with jax_enable_x64=False"),
    ):
        members = members_of(path)
        metadata = json.loads(members["metadata.json"]) | {key: value}
        repack(changed, members | {"metadata.json": json.dumps(metadata).encode()})
        with pytest.raises(bellhop.CompileError, match=message):
            bellhop.load(changed)


def test_results_on_devices(path):
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    f = bellhop.qjit(jnp.sin, out_shardings=sharding)
    f(np.arange(4.0))
    with pytest.raises(
        bellhop.CompileError, match="result of .* has the sharding .*cannot be saved"
    ):
        f.save(path)
    f = bellhop.qjit(jnp.sin, out_shardings="cpu:1")
    f(np.arange(4.0))
    f.save(path)
    members = members_of(path)
    metadata = json.loads(members["metadata.json"])
    metadata["programs"][0]["out_devices"] = [""]
    repack(path, members | {"metadata.json": json.dumps(metadata).encode()})
    with pytest.raises(
        bellhop.CompileError, match="is not a function that can be loaded here: .*on , but"
    ):
        bellhop.load(path)


def test_programs_of_another_version(path):
    f = bellhop.qjit(lambda x: bellhop.pure_callback(programs.divide, float)(x))
    f(1.0)
    f.save(path)
    changed = path.with_name("changed")
    members = members_of(path)
    repack(
        changed,
        {
            name: content.replace(b'kind = "pure"', b'kind = "later"')
            for name, content in members.items()
        },
    )
    with pytest.raises(
        bellhop.CompileError, match=r"not a function that can be loaded here: .*has kind 'later'"
    ):
        bellhop.load(changed, trust=True)(1.0)


def test_a_callback_of_a_circuit(path):
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        qml.RX(bellhop.pure_callback(programs.divide, float)(x), wires=0)
        return qml.expval(qml.Z(0))

    f = bellhop.qjit(circuit)
    np.testing.assert_allclose(f(2.5), np.cos(0.4))
    f.save(path)
    np.testing.assert_allclose(bellhop.load(path, trust=True)(2.5), np.cos(0.4))


def test_a_callback_that_is_gone_is_named(path, monkeypatch):
    f = bellhop.qjit(lambda x: bellhop.pure_callback(programs.divide, float)(x))
    f(1.0)
    f.save(path)
    monkeypatch.delattr(programs, "divide")
    with pytest.raises(bellhop.CompileError, match="programs:divide.* cannot be imported here"):
        bellhop.load(path, trust=True)


def test_the_file_does_not_name_the_machine(path):
    bellhop.qjit(programs.circuit).save(path)
    with zipfile.ZipFile(path) as file:
        module = file.read("0.mlir").decode()
    assert 'library = "lightning.qubit"' in module


def test_a_directory_that_there_is_not_is_named(tmp_path):
    f = bellhop.qjit(lambda x: x)
    f(1.0)
    with pytest.raises(FileNotFoundError, match="cannot be saved: there is no directory .*nowhere"):
        f.save(tmp_path / "nowhere" / "f.bellhop")


def test_errors_of_a_loaded_function_name_the_file(path):
    f = bellhop.qjit(lambda x: 2 * x)
    f(1.0)
    f.save(path)
    where = f"\\(loaded from {path}\\): the argument .* is of type str"
    with pytest.raises(TypeError, match=where):
        bellhop.load(path)("text")


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TypeError, match="bellhop.load takes a path, .* got b'name'"):
        bellhop.load(b"name")
    with pytest.raises(FileNotFoundError, match="bellhop.load cannot read .*nowhere'"):
        bellhop.load(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError, match="bellhop.load cannot read "):
        bellhop.load(tmp_path)


def test_a_result_that_is_not_finite(path):
    f = bellhop.qjit(lambda x: 2 * jnp.log(x))
    f(1.0)
    f.save(path)
    loaded = bellhop.load(path, trust=True)
    with jax.debug_nans(True):
        for _ in range(2):
            with pytest.raises(FloatingPointError, match="returned a value that is not finite"):
                loaded(-1.0)
            assert loaded(1.0) == 0
