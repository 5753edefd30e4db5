"""Functions of Bellhop's own in files that somebody else wrote: known names, calls and strings."""

import importlib
import json
import re
import sys

import jax
import numpy as np
import pytest
import saved_programs as programs
from repacked_files import members_of, repack

import bellhop
from bellhop.archive.own_functions import OWN_FUNCTIONS
from bellhop.compiler.builtin_function import BuiltinFunction

VALUES = {"shape": [4000], "dtype": "float64", "weak": False}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.bellhop"


@pytest.fixture(scope="module")
def printing(tmp_path_factory):
    """Return the bytes of a file whose program prints its argument."""
    path = tmp_path_factory.mktemp("saved") / "function.bellhop"
    f = bellhop.qjit(lambda x: bellhop.debug.print("x = {}", x))
    f(1.0)
    f.save(path)
    return path.read_bytes()


def change_target(path, content, function=None, module=lambda text: text, **fields):
    """Write a file whose first callback has another function, other fields and another module."""
    path.write_bytes(content)
    members = members_of(path)
    data, text = json.loads(members["metadata.json"]), members["0.mlir"].decode()
    (target,) = data["programs"][0]["targets"]
    target |= fields
    if function is not None:
        name, *arguments = function
        target["function"] = {"kind": "bellhop", "name": name, "arguments": arguments}
    changed = {"metadata.json": json.dumps(data), "0.mlir": module(text)}
    repack(path, members | {name: each.encode() for name, each in changed.items()})


def subclasses(class_):
    """Yield all subclasses of a class."""
    for each in class_.__subclasses__():
        yield each
        yield from subclasses(each)


def test_the_table_has_all_functions_of_bellhop():
    for name in OWN_FUNCTIONS:
        importlib.import_module(name.partition(":")[0])
    found = {
        f"{each.__module__}:{each.__qualname__}"
        for each in subclasses(BuiltinFunction)
        if each.__module__.startswith("bellhop.")
    }
    assert found == OWN_FUNCTIONS


@pytest.mark.parametrize("in_place", [False, True])
def test_a_print_is_no_buffer_callback(path, printing, in_place):
    # It would return memory that it did not write.
    change_target(
        path,
        printing,
        command_buffer_compatible=False,
        in_place=in_place,
        result_avals=[VALUES],
        out_tree="*",
    )
    with pytest.raises(bellhop.CompileError, match="'print' in a way that no program does"):
        bellhop.load(path)


def leave(context, out, x):
    """Write nothing."""


def test_a_buffer_callback_that_writes_nothing_returns_zeros(path):
    declared = jax.ShapeDtypeStruct((4000,), float)
    for in_place in (False, True):
        call = bellhop.buffer_callback(leave, declared, in_place=in_place)
        f = bellhop.qjit(lambda x, call=call: call(x))
        f.jit_compile((1.0,))
        f.save(path)
        name = f"{__name__}:leave"
        loaded = bellhop.load(path, functions={name: leave})
        # Memory that was in use before.
        del loaded
        loaded = bellhop.load(path, functions={name: leave})
        for _ in range(3):
            np.full(4000, 7.0).copy()
            assert not np.any(loaded(1.0))


def test_a_kind_of_call_that_no_program_makes(path, printing):
    change_target(path, printing, module=lambda text: text.replace('"debug"', '"io"'))
    with pytest.raises(bellhop.CompileError, match="Bellhop's 'print' by a call of kind 'io' with"):
        bellhop.load(path)


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        (
            ("bellhop.observers.log:LevelCheck", "10", "root"),
            "'log_level' by a call of kind 'debug' with",
        ),
        (
            ("bellhop.observers.log:LevelCheck", "high", "root"),
            "invalid arguments: invalid literal",
        ),
        (
            ("bellhop.observers.log:LogCounter", "x", "1", "r", "s", "f", "0"),
            "every is 0, expected",
        ),
        (("bellhop.observers.print:_Formatter",), "invalid arguments: .*index out of range"),
        (("bellhop.observers.print:_Formatter", "x", "[" * 9999), "invalid arguments: "),
        (
            ("bellhop.observers.print:_Formatter", "x", "[]"),
            "damaged: its NumPy print options",
        ),
        (
            ("bellhop.observers.print:_Formatter", "x", '{"formatter": {"all": "x"}}'),
            "damaged: its NumPy print options",
        ),
        (
            ("bellhop.observers.print:_Formatter", "x", '{"linewidth": "wide"}'),
            "invalid arguments: ",
        ),
        (
            ("bellhop.observers.print:_Formatter", "x", '{"precision": 2000000000}'),
            "print options have the precision 2000000000, expected",
        ),
        (
            ("bellhop.observers.print:_Formatter", "{0:9999}" * 101),
            "widths of more than 1000000 characters together",
        ),
        (
            ("bellhop.circuits.backends.stim.sampler:StimSampler", "q", "{}", "1"),
            "a step of the Stim program is {}, expected a line",
        ),
        (
            ("bellhop.circuits.backends.stim.sampler:StimSampler", "q", "[1]", "1"),
            "a step of the Stim program is 1, expected a line",
        ),
    ],
)
def test_strings_with_which_no_call_succeeds(path, printing, strings, message):
    change_target(path, printing, strings)
    with pytest.raises(bellhop.CompileError, match=f"{re.escape(str(path))}.*{message}"):
        bellhop.load(path)


def test_a_width_that_a_value_determines(path, capfd):
    f = bellhop.qjit(lambda x, n: bellhop.debug.print("{:{n}d}", x, n=n))
    f.jit_compile((1, 2))
    f.save(path)
    loaded = bellhop.load(path)
    loaded(7, 3)
    assert capfd.readouterr().out == "  7\n"
    with pytest.raises(Exception, match="'1000000000d' has a width or precision of more"):
        loaded(7, 1_000_000_000)


@pytest.mark.parametrize(
    "name",
    [
        "bellhop.frameworks.to_torch:X",
        "bellhop.observers.print:np.f2py.X",
        "bellhop.__init__:X",
        "bellhop.observers.print:_print_line",
    ],
)
def test_no_module_is_imported_for_the_name_of_a_function(path, printing, name):
    change_target(path, printing, (name,))
    before = set(sys.modules)
    with pytest.raises(bellhop.CompileError, match="that bellhop does not have"):
        bellhop.load(path)
    assert set(sys.modules) - before <= {"bellhop.circuits"}


class UnusedDevice:
    """An entry point that must not be loaded."""

    name, module, attr = "other.device", "other_device_that_is_not_imported", "Device"

    def load(self):
        pytest.fail("a file chose the import")


def test_no_device_is_imported_because_a_file_names_it(path, monkeypatch):
    bellhop.qjit(programs.circuit).save(path)
    members = members_of(path)
    text = members["0.mlir"].replace(b'"lightning.qubit", ', b'"other.device", ')
    text = re.sub(rb'library = "[^"]*"', b'library = "other.device"', text)
    repack(path, members | {"0.mlir": text})
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [UnusedDevice()])
    with pytest.raises(bellhop.CompileError, match="but no such device with a compiled plugin"):
        bellhop.load(path)


def test_mapped_axes_that_arguments_do_not_have(path):
    call = bellhop.pure_callback(programs.divide, float, vmap_method="sequential_threadpool")
    f = bellhop.qjit(jax.vmap(call))
    f(np.ones(3))
    f.save(path)
    given = {"saved_programs:divide": programs.divide}
    assert bellhop.load(path, functions=given)(np.full(3, 0.5)).tolist() == [2.0] * 3
    for loops in ([[False]], [[True, True]], [[True], [True]]):
        change_target(path, path.read_bytes(), loops=loops)
        with pytest.raises(bellhop.CompileError, match="axes, which its arguments and"):
            bellhop.load(path, functions=given)


def test_aliases_of_arguments_that_a_callback_does_not_have(path, printing):
    change_target(path, printing, aliases=[[0, 99]])
    with pytest.raises(bellhop.CompileError, match="the file aliases arguments of 'print'"):
        bellhop.load(path)
