"""Modules of saved programs: conversion to text, and validation."""

import ast
import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop.archive.callback_targets import verify_call, verify_shape
from bellhop.archive.escaping import escape_controls
from bellhop.archive.libraries import find_device_name, find_plugin
from bellhop.archive.schema import Malformed
from bellhop.base.ir_display import parse
from bellhop.base.types import to_aval
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.native_target import NativeTarget
from bellhop.devices.devices import Target, all_devices, available_devices, device_name
from bellhop_mlir._walk import (
    find_functions,
    find_operations,
    function_type,
    list_operations,
    string_attribute,
)
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects.callback import CallOp, FuncOp, find_declarations
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_structure import is_own
from bellhop_mlir.module_validation import parse_untrusted


def encode_module(text: str) -> str:
    """Convert a program's module to MLIR text that does not depend on this machine.

    Paths of plugin libraries are replaced by the names of their PennyLane devices.

    Args:
        text: MLIR text of the optimised module.

    Raises:
        CompileError: for a library that belongs to no installed device.
    """
    module = parse(text)
    with module.context:
        for begin in find_operations(module.operation, "quantum.begin"):
            library = find_device_name(string_attribute(begin, "library"))
            begin.attributes["library"] = ir.StringAttr.get(library)
    return str(module)


def decode_module(
    text: str,
    targets: Sequence[CallbackTarget],
    in_avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    *,
    trust: bool,
) -> bytes:
    """Validate the module of a saved program; return its bytecode for this machine.

    Device names are replaced by the paths of their plugin libraries.

    Args:
        text: MLIR text of the module, of unknown origin.
        targets: the program's callbacks; the module declares them by index.
        in_avals: types of the arguments that ``@main`` must have.
        out_avals: types of the results that ``@main`` must have.
        trust: whether the module may call any function registered with XLA.

    Raises:
        Malformed: if the module is not valid, or does not match the arguments.
        CompileError: for a PennyLane device that is not installed.
    """
    try:
        module = parse_untrusted(text, any_operation=trust)
    except VerificationError as error:
        raise Malformed(f"bellhop.load does not accept the file's module: {error}") from error
    with module.context:
        _check_main(module, in_avals, out_avals)
        _escape_texts(module)
        _check_declarations(module, targets)
        for op in find_operations(module.operation, "callback.accelerate"):
            find_local_device(string_attribute(op, "device"))
        for op in find_operations(module.operation, "quantum.begin"):
            _localize_circuit(op, trust=trust)
        if find_operations(module.operation, "stablehlo.custom_call"):
            _load_lapack()
        return mlir.module_to_bytecode(module)


@functools.cache
def _load_lapack() -> None:
    """Make JAX load LAPACK, as lowering does; calls would crash otherwise."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), float))


def _check_main(
    module: ir.Module, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> None:
    """Raise an error unless a module's ``@main`` has the expected types.

    It may also take tokens, which order effects, and must return an equal number of them.

    Args:
        module: the module of a program, of unknown origin.
        in_avals: types of the arguments, without tokens.
        out_avals: types of the results, without tokens.

    Raises:
        Malformed: if there is no ``@main``, or it has other types.
    """
    main = find_functions(module).get("main")
    if main is None:
        raise Malformed("the file's module has no function @main")
    type_ = function_type(main)
    for actual, declared in ((type_.inputs, in_avals), (type_.results, out_avals)):
        arrays = [value for value in actual if not callback.is_token(value)]
        if not _have_types(arrays, declared) or len(actual) - len(arrays) != sum(
            map(callback.is_token, type_.inputs)
        ):
            raise Malformed(f"the file's module has @main with the unexpected type {type_}")


def _check_declarations(module: ir.Module, targets: Sequence[CallbackTarget]) -> None:
    """Raise an error unless a module's callbacks have the types that the file gives.

    The runtime trusts the indices, types and kinds of the calls; wrong values could crash it.

    Args:
        module: the module of a program, of unknown origin.
        targets: the callbacks, by the index in their declarations.

    Raises:
        Malformed: if a declaration or a call does not fit its callback.
    """
    declared = find_declarations(module)
    for name, declaration in declared.items():
        if declaration.id >= len(targets):
            raise Malformed(
                f"the file's module gives @{name} the index {declaration.id}, expected an index "
                f"below {len(targets)}, the number of callbacks"
            )
        target, type_ = targets[declaration.id], declaration.function_type
        if len(type_.inputs) != target.in_tree.num_leaves or not _have_types(
            type_.results, target.result_avals
        ):
            raise Malformed(f"the file's module declares @{name} with the unexpected type {type_}")
    for op in find_operations(module.operation, "callback.call"):
        call = CallOp(op)
        declaration = FuncOp(declared[call.callee])
        target = targets[declaration.id]
        verify_call(target, call.kind, _to_avals(declaration.function_type.inputs))
        traits = call.traits
        expected = (not target.asynchronous, target.bars is None, isinstance(target, NativeTarget))
        if (traits.is_awaited, not traits.is_host_only, not traits.calls_python) != expected:
            raise Malformed(
                f"the file's module calls a {target.public_name} by a call of kind '{call.kind}', "
                "which this callback does not support"
            )


def _to_avals(types: Sequence[ir.Type]) -> list[ShapedArray]:
    """Convert the MLIR types of a callback's arguments to abstract values of JAX.

    Raises:
        Malformed: if a type is not a type of arrays that JAX has.
    """
    try:
        avals = list(map(to_aval, types))
    except (KeyError, ValueError) as error:
        raise Malformed(
            f"the file's module passes a value of an unexpected type: {error}"
        ) from error
    for aval in avals:
        verify_shape(aval)
    return avals


def _escape_texts(module: ir.Module) -> None:
    """Escape control characters in string attributes of Bellhop's operations, in place.

    Errors show these strings, such as names of circuits and callbacks.
    """
    for op in list_operations(module.operation):
        if not is_own(op):
            continue
        for name in list(op.attributes):
            attribute = op.attributes[name]
            # Calls refer to symbols by their text.
            if isinstance(attribute, ir.StringAttr) and name != "sym_name":
                op.attributes[name] = ir.StringAttr.get(escape_controls(attribute.value))


def _have_types(types: Sequence[ir.Type], avals: Sequence[ShapedArray]) -> bool:
    """Return whether MLIR types equal the types of abstract values, one by one.

    False if an MLIR type is not a type of arrays that JAX has.
    """
    try:
        found = [(aval.shape, aval.dtype) for aval in map(to_aval, types)]
    except (KeyError, ValueError):
        return False
    return found == [(aval.shape, aval.dtype) for aval in avals]


def find_local_device(name: str) -> Target:
    """Find the device of this process with the name that a file contains.

    Args:
        name: name of a device, such as ``"cuda:0"``.

    Raises:
        Malformed: if this process does not have it; lists the devices.
    """
    here = {device_name(device): device for device in all_devices()}
    if name not in here:
        raise Malformed(
            f"a region of the saved program runs on {name}, but this process has "
            f"{available_devices()}"
        )
    return here[name]


def _localize_circuit(begin: ir.Operation, *, trust: bool) -> None:
    """Replace the device name in a ``quantum.begin`` by the path of its plugin here.

    Args:
        begin: the operation, which begins a circuit and is changed in place.
        trust: whether any installed PennyLane device is allowed, and imported; otherwise Lightning
            devices, and devices whose modules are imported.

    Raises:
        Malformed: if its factory function or its options are not valid.
        CompileError: if the device is not installed.
    """
    attributes = {name: string_attribute(begin, name) for name in ("library", "factory", "kwargs")}
    factory, library = find_plugin(attributes["library"], import_any=trust)
    if attributes["factory"] != factory:
        raise Malformed(
            f"the saved program creates devices by '{attributes['factory']}', expected '{factory}'"
        )
    # Validate the options, since the plugin parses them itself.
    options: Any = None
    try:
        options = ast.literal_eval(attributes["kwargs"])
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise _options_error(attributes["kwargs"]) from error
    if str(options) != attributes["kwargs"] or not (
        isinstance(options, dict)
        and all(type(value) in (bool, int, float, str) for value in options.values())
    ):
        raise _options_error(attributes["kwargs"])
    begin.attributes["library"] = ir.StringAttr.get(library)


def _options_error(options: str) -> Malformed:
    """Return the error for a device whose options have an invalid form in a file.

    Args:
        options: the options, text that is not a dictionary of numbers and strings.
    """
    return Malformed(
        f"the file has a device with invalid options {options[:100]!r}, expected a dictionary of "
        "booleans, numbers and strings"
    )
