"""The programs of a qjit function in a file."""

import dataclasses
import json
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.core import ShapedArray

from bellhop.aot.functions import decode_function, encode_function, function_at
from bellhop.aot.libraries import make_local, make_portable
from bellhop.aot.trees import decode_tree, encode_tree
from bellhop.callbacks.target import CallbackTarget
from bellhop.errors import CompileError
from bellhop.lowering import Program

_FORMAT = 1
_METADATA = "metadata.json"


@dataclasses.dataclass(frozen=True)
class SavedProgram:
    """One program, as a file holds it.

    Attributes:
        module: text of its optimised module.
        targets: its callbacks, by number.
        in_tree: structure of ``(args, kwargs)``.
        in_avals: types of the arguments' leaves.
        out_tree: structure of the result.
        out_avals: types of the result's leaves.
    """

    module: str
    targets: tuple[CallbackTarget, ...]
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]


def save_programs(
    path: str | os.PathLike[str],
    name: str,
    programs: Sequence[tuple[Program, Any, Any]],
    *,
    seed: int | None,
) -> None:
    """Write programs to a file.

    Args:
        path: of the file.
        name: of the function.
        programs: each with its signature, ``(args, kwargs)`` of shapes and dtypes, and the
            structure of its result.
        seed: of its random outcomes.

    Raises:
        CompileError: for a callback that another process cannot import; names it.
        FileNotFoundError: where there is no such directory.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"'{name}' cannot be saved: there is no directory {path.parent}.")
    described = [_encode(*program, f"'{name}'") for program in programs]
    metadata = {
        "format": _FORMAT,
        "name": name,
        "jaxlib": jaxlib.__version__,
        "seed": seed,
        "x64": bool(jax.config.jax_enable_x64),
        "programs": described,
    }
    # Beside the file, and then in its place: whoever reads it never sees half of it.
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(_METADATA, json.dumps(metadata, indent=1))
            for number, (program, *_) in enumerate(programs):
                file.writestr(f"{number}.mlir", make_portable(program.mlir_opt))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_programs(path: str | os.PathLike[str]) -> tuple[str, list[SavedProgram], int | None]:
    """Read what ``save_programs`` wrote.

    Args:
        path: of the file.

    Returns:
        the function's name, its programs, and its seed.

    Raises:
        CompileError: as ``load`` does.
    """
    try:
        with zipfile.ZipFile(path) as file:
            metadata = json.loads(file.read(_METADATA))
            _check(metadata, path)
            modules = [
                file.read(f"{number}.mlir").decode() for number in range(len(metadata["programs"]))
            ]
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise CompileError(
            f"{path} is no function that bellhop saved: {error}. Give the path "
            "that f.save(path) wrote."
        ) from error
    programs = [
        _decode(encoded, make_local(module))
        for encoded, module in zip(metadata["programs"], modules, strict=True)
    ]
    return metadata["name"], programs, metadata["seed"]


def _check(metadata: dict[str, Any], path: Any) -> None:
    if metadata["format"] != _FORMAT:
        raise CompileError(
            f"{path} has format {metadata['format']}, and this bellhop reads {_FORMAT}. Save it "
            "anew."
        )
    if metadata["x64"] != jax.config.jax_enable_x64:
        raise CompileError(
            f"{path} was saved with jax_enable_x64={metadata['x64']}, and it is "
            f"{jax.config.jax_enable_x64} here. Set jax.config.update('jax_enable_x64', "
            f"{metadata['x64']}) before it is loaded."
        )


def _encode(program: Program, signature: Any, out_tree: Any, what: str) -> dict[str, Any]:
    leaves, in_tree = jax.tree.flatten(signature)
    return {
        "in_tree": encode_tree(in_tree, f"the arguments of {what}"),
        "in_avals": [_encode_aval(leaf) for leaf in leaves],
        "out_tree": encode_tree(out_tree, f"the result of {what}"),
        "out_avals": [_encode_aval(aval) for aval in program.code.out_avals],
        "targets": [_encode_target(target) for target in program.targets],
    }


def _decode(encoded: dict[str, Any], module: str) -> SavedProgram:
    return SavedProgram(
        module=module,
        targets=tuple(map(_decode_target, encoded["targets"])),
        in_tree=decode_tree(encoded["in_tree"]),
        in_avals=tuple(map(_decode_aval, encoded["in_avals"])),
        out_tree=decode_tree(encoded["out_tree"]),
        out_avals=tuple(map(_decode_aval, encoded["out_avals"])),
    )


def _encode_target(target: CallbackTarget) -> dict[str, Any]:
    what = f"{target.flavour} '{target.name}' (called from {target.site})"
    fields = {field.name: getattr(target, field.name) for field in dataclasses.fields(target)}
    return fields | {
        "class": f"{type(target).__module__}:{type(target).__qualname__}",
        "function": encode_function(target.function, what),
        "in_tree": encode_tree(target.in_tree, f"the arguments of {what}"),
        "out_tree": encode_tree(target.out_tree, f"the result of {what}"),
        "result_avals": [_encode_aval(aval) for aval in target.result_avals],
    }


def _decode_target(encoded: dict[str, Any]) -> CallbackTarget:
    fields = dict(encoded)
    try:
        function = decode_function(fields["function"])
    except (ImportError, AttributeError) as error:
        raise CompileError(
            f"the saved program calls {fields['flavour']} {fields['function']}, which cannot be "
            f"imported here: {error}. Put its module where Python finds it."
        ) from error
    fields |= {
        "function": function,
        "in_tree": decode_tree(fields["in_tree"]),
        "out_tree": decode_tree(fields["out_tree"]),
        "result_avals": tuple(map(_decode_aval, fields["result_avals"])),
        "loops": tuple(map(tuple, fields["loops"])),
        "aliases": tuple(map(tuple, fields["aliases"])),
    }
    return function_at(fields.pop("class"))(**fields)


def _encode_aval(aval: Any) -> dict[str, Any]:
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        raise CompileError(
            f"arrays of type {aval.dtype} cannot be saved as arguments or results. Pass "
            "jax.random.key_data of a key."
        )
    weak = bool(getattr(aval, "weak_type", False))
    return {"shape": list(aval.shape), "dtype": np.dtype(aval.dtype).name, "weak": weak}


def _decode_aval(encoded: dict[str, Any]) -> ShapedArray:
    return ShapedArray(
        tuple(encoded["shape"]), jax.numpy.dtype(encoded["dtype"]), weak_type=encoded["weak"]
    )
