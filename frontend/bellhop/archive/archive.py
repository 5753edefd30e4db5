"""Reading and writing of files with the programs of a qjit function."""

import contextlib
import dataclasses
import inspect
import io
import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any

import jax
import jaxlib
from jax.core import ShapedArray
from jax.tree_util import PyTreeDef

from bellhop.archive import machine_code
from bellhop.archive.call_signatures import SavedSignature, decode_signature
from bellhop.archive.callback_targets import (
    TARGET,
    SavedAval,
    decode_target,
    decode_typed,
    encode_aval,
    encode_target,
)
from bellhop.archive.escaping import escape_controls
from bellhop.archive.files import as_path, read_file, replace_file
from bellhop.archive.functions import NameResolver
from bellhop.archive.members import MOST_PROGRAMS, digest, read_members, verify_number_of_members
from bellhop.archive.modules import decode_module, encode_module, find_local_device
from bellhop.archive.schema import Malformed, read
from bellhop.archive.signatures import PLACEHOLDER, as_key, get_digest, sign, verify
from bellhop.archive.trees import Dictionary, Sequence, Tree, encode_tree
from bellhop.archive.trust import find_trust_reason
from bellhop.base.source import warn_user
from bellhop.compiler.callback_target import CallbackTarget
from bellhop.compiler.program import Program
from bellhop.devices.devices import Target, target_name
from bellhop.errors import CompileError
from bellhop_runtime import CONTRACT

_FORMAT = 9
_METADATA = "metadata.json"
# Bytes of the metadata, and separators in it, of which each begins a Python object.
_LARGEST_METADATA = 2**24
_MOST_SEPARATORS = 2**20
# Exceptions of a truncated or changed zip archive.
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class SavedFunction:
    """Name, docstring and signature of a function that was loaded from a file.

    `read_programs` returns it.

    Attributes:
        name: its name, printable text.
        doc: its docstring, or None.
        signature: its Python signature; None for a built-in function without one.
        declared: index of the program for its annotated types; None if it declares no types.
    """

    name: str
    doc: str | None
    signature: inspect.Signature | None
    declared: int | None


@dataclass(frozen=True)
class SavedProgram:
    """One program of a loaded file: a module for one signature, with its callbacks.

    Attributes:
        module: bytecode of its optimised MLIR module.
        targets: its callbacks; the module refers to them by index.
        in_tree, in_avals: ``PyTreeDef`` of ``(args, kwargs)``, and types of the leaves.
        out_tree, out_avals: ``PyTreeDef`` of the result, and types of the leaves.
        out_targets: requested device of each result leaf, or None; empty if none is requested.
        machine_code: XLA's machine code; None if absent, for other machines or not trusted.
    """

    module: bytes
    targets: tuple[CallbackTarget, ...]
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    out_targets: tuple[Target | None, ...]
    machine_code: bytes | None = None


_PROGRAM = {
    "in_tree": Tree,
    "in_avals": tuple[SavedAval, ...],
    "out_tree": Tree,
    "out_avals": tuple[SavedAval, ...],
    "out_devices": [str | None],
    "targets": [TARGET],
}
_FILE = {
    "format": int,
    "contract": str,
    "name": str,
    "signature": SavedSignature,
    "jaxlib": str,
    "seed": int | None,
    "concurrent_callbacks": int,
    "x64": bool,
    "compiled_for": str | None,
    "programs": [_PROGRAM],
}


def save_programs(
    path: str | os.PathLike[str],
    name: str,
    signature: SavedSignature,
    programs: SequenceOf[tuple[Program, Any, Any]],
    *,
    seed: int | None,
    concurrent_callbacks: int,
    executables: SequenceOf[jax.stages.Compiled] = (),
    key: bytes | str | None = None,
) -> None:
    """Write the programs of a qjit function to a file, for ``bellhop.load``.

    Args:
        path: path of the file, which is replaced if it exists.
        name: name of the function.
        signature: docstring and signature of the function.
        programs: for each program: the program, the pytree ``(args, kwargs)`` of its types, and its
            result's ``PyTreeDef``.
        seed: seed of the function's random outcomes, or None.
        concurrent_callbacks: number of callbacks that may run concurrently.
        executables: XLA's executable of each program, to include machine code; or empty.
        key: key that signs the file; None for a file without a signature.

    Raises:
        CompileError: if a part cannot be saved, such as a callback without an importable name.
        TypeError, ValueError: if the path or the key is not valid.
        FileNotFoundError: if the directory does not exist.

    Warns:
        UserWarning: if ``load`` needs ``trust=True`` for a program; names the reason.
    """
    path = as_path("save", path)
    key = None if key is None else as_key(key, "Use secrets.token_bytes(32).")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"'{name}' cannot be saved: there is no directory {path.parent}. Create the directory, "
            "or pass another path."
        )
    metadata = {
        "format": _FORMAT,
        "contract": CONTRACT,
        "name": name,
        "signature": signature,
        "jaxlib": jaxlib.__version__,
        "seed": seed,
        "concurrent_callbacks": concurrent_callbacks,
        "x64": bool(jax.config.jax_enable_x64),
        "compiled_for": machine_code.describe_machine() if executables else None,
        "programs": [_encode(*program, f"'{name}'") for program in programs],
    }
    members = {_METADATA: json.dumps(metadata, indent=1, default=dataclasses.asdict).encode()}
    excess = _describe_excess(members[_METADATA])
    if len(programs) > MOST_PROGRAMS:
        excess = f"{len(programs)} programs, expected at most {MOST_PROGRAMS}"
    if excess is not None:
        raise CompileError(
            f"'{name}' cannot be saved: its metadata has {excess}. Compile the function for fewer "
            "argument types, or with fewer arguments, results and callbacks."
        )
    for number, (program, *_) in enumerate(programs):
        members[f"{number}.mlir"] = encode_module(program.mlir_opt).encode()
    for number, executable in enumerate(executables):
        members[f"{number}.xla"] = machine_code.serialize_executable(executable)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in members.items():
            file.writestr(member, content)
        file.comment = digest(members) + (b"" if key is None else PLACEHOLDER)
    content = packed.getvalue()
    replace_file(path, content if key is None else sign(content, key))
    reason = find_trust_reason(
        (members[f"{index}.mlir"].decode(), program.targets)
        for index, (program, *_) in enumerate(programs)
    )
    if reason is not None:
        warn_user(
            f"'{name}' is saved, but bellhop.load needs trust=True for the file: "
            f"{reason.rstrip('.')}. Pass trust=True to bellhop.load, or write the function "
            "without this operation or format string."
        )


def read_programs(
    path: str | os.PathLike[str],
    functions: Mapping[str, Any],
    *,
    trust: bool,
    key: bytes | str | None = None,
) -> tuple[SavedFunction, list[SavedProgram], dict[str, Any]]:
    """Read a file that `save_programs` wrote, and validate its content.

    Args:
        path: path of the file.
        functions: Python functions and classes that the file may name, by name.
        trust: whether the file may import other names, call C functions, and run its machine code.
        key: key of the signature; None skips the check.

    Returns:
        the function's name and signature, its programs, and its options ``seed`` and
        ``concurrent_callbacks`` by name.

    Raises:
        CompileError: if the file is damaged, not for this process, not signed with the key, or
            names functions that are not allowed; names the file.
        TypeError, ValueError: if the path, the key or a value of `functions` is not valid.
        OSError: if the file cannot be read.
    """
    resolver = NameResolver(functions, trust=trust)
    key = None if key is None else as_key(key, "Pass the key of f.save(path, key=key).")
    content = read_file(as_path("bellhop.load", path))
    with name_file_errors(path):
        # The bytes parsed below are the verified bytes.
        if key is not None:
            verify(content, key)
        _check_is_saved_function(content)
        metadata, modules, executables = _unpack(content, trust=trust)
        if lacking := resolver.find_missing(metadata):
            given = ", ".join(f"{name!r}: ..." for name in lacking)
            others = f" (load got {', '.join(functions)})" if functions else ""
            raise CompileError(
                "the saved program needs these Python functions or classes, which were not passed "
                f"to load: {', '.join(lacking)}{others}. Pass them, load(path, "
                f"functions={{{given}}}), or use load(path, trust=True) if you trust the file like "
                "a script that you run."
            )
        programs = [
            _decode(*each, resolver)
            for each in zip(metadata["programs"], modules, executables, strict=True)
        ]
        if not metadata["name"].isprintable():
            # Errors show the name.
            raise Malformed(
                f"the function's name {metadata['name']!r} has characters that cannot be printed"
            )
        described: SavedSignature = metadata["signature"]
        if described.declared is not None and not 0 <= described.declared < len(programs):
            raise Malformed(
                f"the file says that program {described.declared} has the annotated argument "
                f"types, expected a program from 0 to {len(programs) - 1}"
            )
        signature = decode_signature(described, resolver)
        doc = None if described.doc is None else escape_controls(described.doc)
    options = {name: metadata[name] for name in ("seed", "concurrent_callbacks")}
    function = SavedFunction(metadata["name"], doc, signature, described.declared)
    return function, programs, options


@contextlib.contextmanager
def name_file_errors(path: Any) -> Iterator[None]:
    """Convert any exception in a ``with`` block to a `CompileError` that names a file.

    The block reads the file at ``path``. Exceptions that are warnings are raised unchanged.

    Raises:
        CompileError: naming the file, with the message of the exception.
    """
    try:
        yield
    except CompileError as error:
        # The message says everything: a cause would show it twice.
        problem = escape_controls(str(error))
        raise CompileError(f"{path}: {problem}") from None
    except Warning:
        # The user's filters make exceptions of warnings.
        raise
    except Exception as error:
        # A crafted file may cause any exception of the libraries that read it.
        kind = "" if isinstance(error, Malformed) else f"{type(error).__name__}: "
        problem = escape_controls(f"{kind}{error}".rstrip(".: "))
        raise CompileError(
            f"{path} is not a function that can be loaded here: {problem}. Save the function "
            "again, with this version of bellhop and for the devices of this machine."
        ) from (None if isinstance(error, Malformed) else error)


def _check_is_saved_function(content: bytes) -> None:
    """Raise an error unless a file begins like the files that `save_programs` writes.

    These are zip archives whose first member is the metadata.

    Args:
        content: bytes of the whole file.

    Raises:
        CompileError: if the file is empty, another zip archive, or a file of another kind; the
            message names the case.
    """
    if not content:
        raise CompileError(
            "the file is empty, expected a saved function. Copy it again from its origin, or write "
            "it again by f.save(path)."
        )
    # A zip archive begins with the header of its first member, whose name begins at byte 30.
    name = _METADATA.encode()
    if not content.startswith(b"PK\3\4") or content[30 : 30 + len(name)] != name:
        kind = "another zip archive" if content.startswith(b"PK\3\4") else "another kind of file"
        raise CompileError(
            f"the file is not a function that bellhop saved, but {kind}, which begins with "
            f"{content[:16]!r}. Pass the path that f.save(path) wrote."
        )


def _describe_excess(metadata: bytes) -> str | None:
    """Describe the size limit that a saved file's metadata exceeds, if any.

    Args:
        metadata: the metadata as JSON.

    Returns:
        text such as ``"17000000 bytes, expected at most 16777216"``; None if no limit is exceeded.
    """
    n_separators = sum(map(metadata.count, (b",", b"[", b"{")))
    for number, limit, unit in (
        (len(metadata), _LARGEST_METADATA, "bytes"),
        (n_separators, _MOST_SEPARATORS, "separators (commas and brackets)"),
    ):
        if number > limit:
            return f"{number} {unit}, expected at most {limit}"
    return None


def _unpack(
    content: bytes, *, trust: bool
) -> tuple[dict[str, Any], list[str], SequenceOf[bytes | None]]:
    """Read the zip archive of a saved file, and validate its metadata.

    Machine code in the file is used if the file is trusted, and was saved on an equal machine; a
    trusted file for another machine causes a warning.

    Args:
        content: bytes of the zip archive.
        trust: whether machine code in the file may be used.

    Returns:
        the metadata, whose types ``_FILE`` has; the MLIR text of each program's module; and each
        program's machine code, or None if it cannot be used.

    Raises:
        Malformed, KeyError: if the archive has content that `save_programs` never writes.
        CompileError: if it is damaged, or was saved with another format, version or precision.
    """
    verify_number_of_members(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members, comment = read_members(file, len(content)), file.comment
    except (*_ZIP_ERRORS, EOFError, NotImplementedError, RuntimeError) as error:
        raise CompileError(
            f"the file is damaged: {str(error) or 'it ends too early'}. Copy it again from its "
            "origin, or write it again by f.save(path)."
        ) from None
    if (excess := _describe_excess(members[_METADATA])) is not None:
        raise Malformed(f"the file's metadata has {excess}")
    metadata = json.loads(members[_METADATA])
    # Other formats may have other fields.
    if type(metadata) is not dict:
        raise Malformed(f"the file's {_METADATA} is a {type(metadata).__name__}, expected a dict")
    format_ = read(int, metadata.get("format"), "format")
    if format_ != _FORMAT:
        raise CompileError(
            f"another version of bellhop saved it: the file has format {format_}, expected "
            f"{_FORMAT}. Save the function again with this version, or load it with the "
            "version that saved it."
        )
    if get_digest(comment) != digest(members):
        raise CompileError(
            "the file is damaged: it was changed after it was saved. Copy it again from its "
            "origin, or write it again by f.save(path)."
        )
    metadata = read(_FILE, metadata, _METADATA)
    if metadata["contract"] != CONTRACT:
        raise CompileError(
            "another version of bellhop saved it: the file's programs call another runtime. Save "
            "the function again with this version, or load it with the version that saved it."
        )
    if metadata["x64"] != jax.config.jax_enable_x64:
        raise CompileError(
            f"the function was saved with jax_enable_x64={metadata['x64']}, but this process has "
            f"jax_enable_x64={jax.config.jax_enable_x64}. Set jax.config.update('jax_enable_x64', "
            f"{metadata['x64']}) before you load the file."
        )
    numbers = range(len(metadata["programs"]))
    if not 0 < len(numbers) <= MOST_PROGRAMS:
        raise Malformed(f"the file has {len(numbers)} programs, expected 1 to {MOST_PROGRAMS}")
    modules = [members[f"{number}.mlir"].decode() for number in numbers]
    executables: SequenceOf[bytes | None] = [None] * len(numbers)
    # Machine code is not restricted, so it is used for trusted files only.
    if trust and metadata["compiled_for"] is not None:
        if metadata["compiled_for"] == machine_code.describe_machine():
            executables = [members[f"{number}.xla"] for number in numbers]
        else:
            warn_user(
                f"'{metadata['name']}' was compiled for {metadata['compiled_for']}, but this "
                f"is {machine_code.describe_machine()}: the function is compiled again. Save the "
                "function on a machine like this one."
            )
    return metadata, modules, executables


def _encode(program: Program, signature: Any, out_tree: PyTreeDef, what: str) -> dict[str, Any]:
    """Convert a program, without its module, to a dictionary for JSON.

    ``_PROGRAM`` has the types of the values.

    Args:
        program: the program.
        signature: ``(args, kwargs)``, a pytree with the types of the arguments.
        out_tree: structure of the program's result.
        what: name of the function, for errors.

    Raises:
        CompileError: if a callback, a pytree, an array type or a result's sharding cannot be saved.
    """
    leaves, in_tree = jax.tree.flatten(signature)
    for target in program.code.targets:
        if isinstance(target, jax.sharding.Sharding):
            raise CompileError(
                f"the result of {what} has the sharding {target}, which cannot be saved. Pass "
                "devices as out_shardings, and reshard the result of the loaded function."
            )
    arguments, result = f"the arguments of {what}", f"the result of {what}"
    return {
        "in_tree": encode_tree(in_tree, arguments),
        "in_avals": [encode_aval(leaf, arguments) for leaf in leaves],
        "out_tree": encode_tree(out_tree, result),
        "out_avals": [encode_aval(aval, result) for aval in program.code.out_avals],
        "out_devices": [target and target_name(target) for target in program.code.targets],
        "targets": [encode_target(target) for target in program.targets],
    }


def _decode(
    record: dict[str, Any], module: str, executable: bytes | None, resolver: NameResolver
) -> SavedProgram:
    """Build a `SavedProgram` from its data in a file, and validate its module.

    Args:
        record: data of the program, as `_encode` returned them; ``_PROGRAM`` has the types.
        module: MLIR text of the program's module.
        executable: the program's machine code, or None.
        resolver: resolves the names of functions and classes.

    Raises:
        Malformed: if arguments, callbacks and module do not match.
        CompileError: for a function, class or PennyLane device that this process cannot use.
    """
    in_tree, in_avals = decode_typed(record, "in_tree", "in_avals", resolver)
    out_tree, out_avals = decode_typed(record, "out_tree", "out_avals", resolver)
    match record["in_tree"]:
        case Sequence("tuple", (Sequence("tuple"), Dictionary(keys=names))) if all(
            type(name) is str for name in names
        ):
            pass
        case _:
            raise Malformed(
                "the program's arguments have the wrong structure, expected a tuple of positional "
                "and a dictionary of keyword arguments"
            )
    targets = tuple(decode_target(target, resolver) for target in record["targets"])
    bytecode = decode_module(module, targets, in_avals, out_avals, trust=resolver.trust)
    names = record["out_devices"]
    if len(names) not in (0, len(out_avals)):
        raise Malformed(
            f"the program has {len(out_avals)} results, but devices for {len(names)} results"
        )
    out_targets = tuple(None if name is None else find_local_device(name) for name in names)
    return SavedProgram(
        bytecode, targets, in_tree, in_avals, out_tree, out_avals, out_targets, executable
    )
