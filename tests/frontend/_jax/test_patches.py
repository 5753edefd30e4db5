"""What of JAX, PennyLane and malt is replaced, and when: nothing by an import."""

import re
from pathlib import Path

import jax
import numpy as np
import pennylane as qml
import pytest
from doc import list_patches

import bellhop
from bellhop import _patching, doctor

# Everything that belongs to a module, a class in it, or a table in it, of either.
SNAPSHOT = """
    import re, sys, types
    import jax, jax.experimental.buffer_callback, jax.export, jax.extend.core
    import pennylane

    OWNERS = ("jax", "jaxlib", "pennylane", "pennylane_lightning", "autoray")

    def parts():
        found = {{}}
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in OWNERS and isinstance(module, types.ModuleType):
                for key, value in list(vars(module).items()):
                    found[name, key] = value
                    inner = value if isinstance(value, dict) else {{}}
                    if isinstance(value, type) and value.__module__.partition(".")[0] in OWNERS:
                        inner = vars(value)
                    found |= {{(name, key, each): part for each, part in list(inner.items())}}
        return found

    before = parts()
    import bellhop
    after = parts()
    modules = {{key[0] for key in before}}
    # Bellhop's own types and primitives are registered with JAX; that replaces nothing.
    print(sorted(
        ".".join(map(str, key)) for key in before.keys() | after.keys()
        if before.get(key) is not after.get(key)
        and key[0] in modules and key[1] != "__warningregistry__"
        and (key in before or not re.match("bellhop|quantum|<class 'bellhop", str(key[-1])))
        and not (len(key) == 2 and isinstance(after.get(key), types.ModuleType))
    ))
    {code}
"""
USE = """
    import jax.numpy as jnp
    from bellhop._patching import installed_patches
    print(installed_patches() == {})
    f = bellhop.pure_callback(lambda x: x, float)
    bellhop.qjit(lambda x: bellhop.accelerate(jnp.sin)(f(x)))(1.0)
    print(len(installed_patches()))
    jax.jit(f)(1.0)
    print(len(installed_patches()))
"""


def test_importing_bellhop_replaces_nothing(run_script):
    changed, nothing, by_program, by_jit = run_script(SNAPSHOT.format(code=USE)).splitlines()
    assert changed == "[]"
    assert nothing == "True"
    # Seven of JAX and eleven of PennyLane, which is here; where JAX dropped names that PennyLane
    # asks for, these; then three more of JAX.
    n_names = int(jax.__version_info__ >= (0, 11))
    assert (int(by_program), int(by_jit)) == (18 + n_names, 21 + n_names)


def test_a_part_that_jax_lacks_is_named():
    with pytest.raises(
        bellhop.CompileError, match=r"has no jax\.nothing, which bellhop has to rep"
    ):
        _patching.original(jax, "nothing")


def test_a_patch_is_put_in_once():
    calls = []
    put_in = _patching.patch("a part of this test", "it is counted")(calls.append)
    put_in(1)
    put_in(2)
    assert calls == [1]
    assert _patching.installed_patches()["a part of this test"] == "it is counted"
    del _patching._in_force["a part of this test"]


def test_a_patch_that_fails_leaves_nothing_replaced():
    class Base:
        inherited = 1

    class Library(Base):
        own = 1

    rules = {"known": 1}
    is_missing = True

    @_patching.patch("a part of a failing test", "it fails first")
    def install():
        _patching.replace(Library, "own", 2)
        _patching.replace(Library, "inherited", 2)
        _patching.replace_item(rules, "known", 2)
        _patching.replace_item(rules, "new", 2)
        if is_missing:
            _patching.original(jax, "nothing")

    with pytest.raises(bellhop.CompileError, match="has no jax"):
        install()
    assert (Library.own, Library.inherited, rules) == (1, 1, {"known": 1})
    assert "inherited" not in vars(Library)
    is_missing = False
    install()
    assert (Library.own, Library.inherited, rules) == (2, 2, {"known": 2, "new": 2})
    del _patching._in_force["a part of a failing test"]


def test_the_doctor_lists_what_autograph_and_circuits_replace():
    @bellhop.qjit(autograph=True)
    @qml.qnode(qml.device("lightning.qubit", wires=1))
    def circuit(x):
        if x > 0:
            qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    np.testing.assert_allclose(circuit(0.3), np.cos(0.3))
    listed = doctor._check_patches().detail
    for part in (
        "QNode.__call__",
        "PennyLane's queues",
        "the arguments of nested functions in malt",
    ):
        assert part in listed


@pytest.mark.parametrize("file", list_patches.find_patches(), ids=lambda path: path.stem)
def test_a_patch_says_what_for_and_until_when(file):
    fields = list_patches.Patch.read(file).fields
    for test in re.findall(r"test_\w+\.py", fields["Test"]):
        assert list(Path(__file__).parents[2].rglob(test)), test


def test_the_table_of_replaced_functions_is_up_to_date():
    page = list_patches.PAGE.read_text()
    assert list_patches.insert_tables(page) == page, "run `python doc/list_patches.py`"
