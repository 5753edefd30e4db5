"""The modules of saved programs: as a file holds them, and as they may be compiled."""

import ast
import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import ir

from bellhop.archive.libraries import device_of, plugin_of
from bellhop.archive.schema import Malformed
from bellhop.base.ir_display import parse
from bellhop.base.types import to_aval
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.devices.devices import Target, all_devices, available_devices, device_name
from bellhop_mlir._walk import find_functions, find_operations, function_type, string_attribute
from bellhop_mlir.dialects import callback
from bellhop_mlir.dialects.callback import CallOp, FuncOp, find_declarations
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted


def encode_module(text: str) -> str:
    """Return the text of a module as another machine can have it.

    Raises:
        CompileError: for a device that no other machine can have.
    """
    module = parse(text)
    with module.context:
        for begin in find_operations(module.operation, "quantum.begin"):
            library = device_of(string_attribute(begin, "library"))
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
    """Return bytecode of a module that may be compiled.

    Args:
        text: as a file holds it.
        targets: what its declarations number.
        in_avals: the arguments.
        out_avals: the results.
        trust: whether it may call whatever is registered with XLA.

    Raises:
        Malformed: where it may not.
        CompileError: for a device that is not here.
    """
    try:
        module = parse_untrusted(text, any_operation=trust)
    except VerificationError as error:
        raise Malformed(f"its module cannot be compiled: {error}") from error
    with module.context:
        _check_main(module, in_avals, out_avals)
        _check_declarations(module, targets)
        for op in find_operations(module.operation, "callback.accelerate"):
            target_here(string_attribute(op, "device"))
        for op in find_operations(module.operation, "quantum.begin"):
            _make_local(op)
        if find_operations(module.operation, "stablehlo.custom_call"):
            _load_lapack()
        return mlir.module_to_bytecode(module)


@functools.cache
def _load_lapack() -> None:
    """Let JAX load LAPACK: it does when it lowers, and without it the calls jump to address 0."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), float))


def _check_main(
    module: ir.Module, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray]
) -> None:
    main = find_functions(module).get("main")
    if main is None:
        raise Malformed("its module has no function @main")
    type_ = function_type(main)
    for given, declared in ((type_.inputs, in_avals), (type_.results, out_avals)):
        arrays = [value for value in given if not callback.is_token(value)]
        if not _are(arrays, declared) or len(given) - len(arrays) != sum(
            map(callback.is_token, type_.inputs)
        ):
            raise Malformed(f"its module has @main of the type {type_}, which is another")


def _check_declarations(module: ir.Module, targets: Sequence[CallbackTarget]) -> None:
    declared = find_declarations(module)
    for name, declaration in declared.items():
        if declaration.id >= len(targets):
            raise Malformed(f"its module numbers @{name} {declaration.id} of {len(targets)}")
        target, type_ = targets[declaration.id], declaration.function_type
        if len(type_.inputs) != target.in_tree.num_leaves or not _are(
            type_.results, target.result_avals
        ):
            raise Malformed(f"its module declares @{name} of the type {type_}, which is another")
    for op in find_operations(module.operation, "callback.call"):
        call = CallOp(op)
        target = targets[FuncOp(declared[call.callee]).id]
        is_awaited, is_of_loop = call.traits.is_awaited, call.traits.is_host_only
        if (is_awaited, is_of_loop) != (not target.asynchronous, target.bars is not None):
            raise Malformed(f"its module makes a call of kind {call.kind} of a {target.flavour}")


def _are(types: Sequence[ir.Type], avals: Sequence[ShapedArray]) -> bool:
    try:
        found = [(aval.shape, aval.dtype) for aval in map(to_aval, types)]
    except (KeyError, ValueError):
        return False
    return found == [(aval.shape, aval.dtype) for aval in avals]


def target_here(name: str) -> Target:
    """Return the device that a file names.

    Raises:
        Malformed: where there is none.
    """
    here = {device_name(device): device for device in all_devices()}
    if name not in here:
        raise Malformed(f"a region of it runs on {name}, and there are {available_devices()} here")
    return here[name]


def _make_local(begin: ir.Operation) -> None:
    """Give a circuit the library that its device has here."""
    attributes = {name: string_attribute(begin, name) for name in ("library", "factory", "kwargs")}
    factory, library = plugin_of(attributes["library"])
    if attributes["factory"] != factory:
        raise Malformed(f"it runs circuits by '{attributes['factory']}', which is not '{factory}'")
    # The plugin parses them by itself.
    options: Any = None
    try:
        options = ast.literal_eval(attributes["kwargs"])
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise Malformed("it has a device whose options are none") from error
    if str(options) != attributes["kwargs"] or not (
        isinstance(options, dict)
        and all(type(value) in (bool, int, float, str) for value in options.values())
    ):
        raise Malformed("it has a device whose options are none")
    begin.attributes["library"] = ir.StringAttr.get(library)
