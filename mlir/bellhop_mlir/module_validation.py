"""Validation of modules of unknown origin before compilation.

XLA trusts its input: recursive or exponentially many calls never end, some custom calls use
addresses in the program, and some operations write out of bounds.  So modules are parsed here, and
raise an error unless they have the structure of programs (``module_structure.py``), and only
operations, attributes and element types in ``allowed_operations.py``.  Damaged and foreign files
become errors, but XLA does not become a security boundary: see SECURITY.md.
"""

import math
import re
from collections.abc import Iterator

from bellhop_mlir import dialects
from bellhop_mlir._bindings import ir, make_context
from bellhop_mlir._call_graph import CallGraph, build_call_graph, iterate_references
from bellhop_mlir._walk import find_functions, list_operations
from bellhop_mlir.allowed_operations import ATTRIBUTES, ELEMENTS, HARMLESS, MODULE_ATTRIBUTES
from bellhop_mlir.comparators import verify_comparator
from bellhop_mlir.dialects import callback, find_attribute_types
from bellhop_mlir.dialects._attributes import require_attributes
from bellhop_mlir.dialects.callback_kinds import KINDS
from bellhop_mlir.dialects.gate import verify_gates
from bellhop_mlir.errors import VerificationError
from bellhop_mlir.lapack import verify_call
from bellhop_mlir.module_structure import is_own, verify_structure
from bellhop_mlir.parser_limits import verify_text

# Limits on the bytes of a value, and on the number of operations after inlining.
_LARGEST_VALUE = 2**48
_MOST_OPERATIONS = 2**24
# Functions in a chain of calls, through which MLIR and XLA recurse; programs have dozens.
_DEEPEST_CALLS = 400

# Sharding attributes, which are dropped, since a program runs on one device.
_SHARDING = ("sdy.", "mhlo.sharding")
# The end of an error for a part of a module that only the files of trusted users may have.
_TRUST_NEEDED = "which bellhop.load accepts only with trust=True"
# Strings that describe a circuit in the attribute ``callback.CIRCUITS``.
_TEXTS_OF_CIRCUIT = 3
# Prefix of other attributes of a module, which passes set for later passes.
_OF_PASSES = "bellhop."
# Control characters but the newline, which separates the names of gates.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
# JAX's names of arguments and results, which XLA ignores.
_NAME_ATTRIBUTE = "jax.result_info"
# XLA treats some composites with these prefixes as operations, ignoring their decomposition.
_OPERATION_PREFIXES = ("chlo.", "mhlo.", "stablehlo.", "xla.")
# Later passes create calls of the remaining kinds.
_KINDS = [kind.name for kind in KINDS.values() if kind.is_traced]


def parse_untrusted(text: str, *, any_operation: bool = False) -> ir.Module:
    """Parse the text of a module from a file, and check that XLA may compile it.

    Args:
        text: text of the module, after the optimising passes.
        any_operation: for files that the user trusts: whether to allow all operations, attributes
            and element types, and custom calls of any function registered with XLA. Shapes,
            callbacks and calls within the module are checked all the same.

    Returns:
        the module, in a new MLIR context. Shardings, and attributes of arguments and
        results other than their names, are erased unless ``any_operation``.

    Raises:
        VerificationError: if the text is not a module, or has a part that is not allowed, which the
            message names.
    """
    verify_text(text, allows_unsaved_syntax=False)
    try:
        with make_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            verify_structure(module, any_operation=any_operation)
            dialects.verify(module)
            _verify_module_attributes(module, any_value=any_operation)
            for op in list_operations(module.operation):
                if not any_operation:
                    _verify_allowed(op)
                _verify_operation(op, any_element=any_operation)
            _verify_calls(module)
    except VerificationError:
        raise
    except (ir.MLIRError, TypeError, ValueError, LookupError) as error:
        # The bindings raise these exceptions for unknown attributes and types.
        raise VerificationError(
            f"the text is not an MLIR module that bellhop can read: {error}"
        ) from error
    return module


def _verify_allowed(op: ir.Operation) -> None:
    """Check that saved programs may have this operation with its attributes.

    Also erases sharding attributes, and runs the verifier of this kind of operation in
    ``_VERIFIERS``.

    Raises:
        VerificationError: if the operation or an attribute is not in ``allowed_operations.py``, or
            from the verifier.
    """
    name = op.name
    for attribute in list(op.attributes):
        if attribute.startswith(_SHARDING):
            del op.attributes[attribute]
    if is_own(op):
        _verify_own_attributes(op)
        return
    if name not in ATTRIBUTES:
        raise VerificationError(f"the module has an operation {name}, {_TRUST_NEEDED}")
    for attribute in op.attributes:
        if attribute not in ATTRIBUTES[name] and not attribute.startswith(HARMLESS):
            raise _make_attribute_error(name, attribute, _TRUST_NEEDED)
    verify = _VERIFIERS.get(name)
    if verify is not None:
        verify(op)


def _make_attribute_error(
    name: str, attribute: str, reason: str = "which saved programs do not have"
) -> VerificationError:
    """Return the error for an attribute that an operation must not have.

    Args:
        name: name of the operation, or ``"module"``.
        attribute: name of the attribute.
        reason: a relative clause, the end of the message.
    """
    return VerificationError(f"the module's {name} has an attribute '{attribute}', {reason}")


def _verify_own_attributes(op: ir.Operation) -> None:
    """Check the optional attributes of a ``callback`` or ``quantum`` operation.

    The dialects' verifiers check the required attributes.

    Raises:
        VerificationError: for an attribute that is not in the operation's signature, for an
            attribute of another type than in the signature, and for a string with control
            characters, since reports print the strings.
    """
    types = find_attribute_types(op.name)
    for attribute in op.attributes:
        # A call with this attribute is not hoisted, and no reader looks at the attribute's value.
        is_known = attribute in types or attribute == callback.STAYS
        if not is_known and not attribute.startswith(HARMLESS):
            raise _make_attribute_error(op.name, attribute)
        value = op.attributes[attribute]
        if isinstance(value, ir.StringAttr) and _CONTROL.search(value.value):
            raise VerificationError(
                f"the module's {op.name} has an attribute '{attribute}' with control characters"
            )
    require_attributes(op, {name: type_ for name, type_ in types.items() if name in op.attributes})


def _verify_module_attributes(module: ir.Module, *, any_value: bool) -> None:
    """Check the attributes of an untrusted module; erase its shardings.

    Args:
        module: the module.
        any_value: whether to allow any other attributes and values, and to keep shardings. In any
            case, attributes that start with ``bellhop.`` are rejected, except the list of circuits:
            Bellhop's passes set them and rely on them.

    Raises:
        VerificationError: for an attribute that starts with ``bellhop.``, unless it is a valid list
            of circuits; without ``any_value``, also for an attribute that is not in
            ``MODULE_ATTRIBUTES``, or that has another value.
    """
    attributes = module.operation.attributes
    for name in list(attributes):
        if name == callback.CIRCUITS:
            _verify_circuits(attributes[name])
            continue
        if name.startswith(_OF_PASSES):
            raise _make_attribute_error("module", name)
        if any_value or name == "sym_name" or name.startswith(HARMLESS):
            continue
        if name.startswith(_SHARDING):
            del attributes[name]
        elif name not in MODULE_ATTRIBUTES:
            raise _make_attribute_error("module", name, _TRUST_NEEDED)
        elif ir.IntegerAttr(attributes[name]).value != MODULE_ATTRIBUTES[name]:
            raise VerificationError(
                f"the module's attribute {name} is {attributes[name]}, expected "
                f"{MODULE_ATTRIBUTES[name]}; bellhop.load accepts others only with trust=True"
            )


def _verify_circuits(circuits: ir.Attribute) -> None:
    """Check the module attribute ``bellhop.circuits``, which profiles print.

    It describes each circuit that is compiled into the program, by three strings: the QNode, its
    device, and how it is simulated.

    Raises:
        VerificationError: unless it is an array of arrays of three printable strings.
    """
    is_valid = isinstance(circuits, ir.ArrayAttr) and all(
        isinstance(circuit, ir.ArrayAttr)
        and len(circuit) == _TEXTS_OF_CIRCUIT
        and all(isinstance(text, ir.StringAttr) and text.value.isprintable() for text in circuit)
        for circuit in circuits
    )
    if not is_valid:
        raise VerificationError(
            f"the module's attribute '{callback.CIRCUITS}' is {str(circuits)[:100]!r}, expected an "
            f"array of arrays of {_TEXTS_OF_CIRCUIT} printable strings"
        )


def _keep_names_of_values(op: ir.Operation) -> None:
    """Erase the attributes of a function's arguments and results, except their names.

    The names are in ``jax.result_info``. XLA would act on some of the other attributes. Called for
    each ``func.func`` of an untrusted module.
    """
    for role in ("arg_attrs", "res_attrs"):
        if role not in op.attributes:
            continue
        kept = []
        for attributes in ir.ArrayAttr(op.attributes[role]):
            named = ir.DictAttr(attributes)
            names = {_NAME_ATTRIBUTE: named[_NAME_ATTRIBUTE]} if _NAME_ATTRIBUTE in named else {}
            kept.append(ir.DictAttr.get(names))
        op.attributes[role] = ir.ArrayAttr.get(kept)


def _verify_windows(op: ir.Operation) -> None:
    """Check that no window of a ``select_and_scatter`` lies in its padding only.

    Such a window would crash XLA. An operation without padding or without window sizes is valid.

    Raises:
        VerificationError: for a padding that is negative, or not less than the window's size along
            its axis.
    """
    if "padding" not in op.attributes or "window_dimensions" not in op.attributes:
        return
    padding = op.attributes["padding"]
    sizes = list(ir.DenseI64ArrayAttr(op.attributes["window_dimensions"]))
    edges = [int(each) for each in ir.DenseIntElementsAttr(padding)]
    if any(not 0 <= edge < sizes[i // 2] for i, edge in enumerate(edges)):
        raise VerificationError(
            f"the module's select_and_scatter has the padding {edges} for windows of the sizes "
            f"{sizes}, expected at least 0 and less than the window's size on each side"
        )


def _verify_transform_lengths(op: ir.Operation) -> None:
    """Check that a complex ``stablehlo.fft`` has the lengths of the axes that it transforms.

    XLA's kernel ends the process for other lengths. StableHLO verifies the lengths of real
    transforms itself.

    Raises:
        VerificationError: if the lengths are not the sizes of the operand's last axes.
    """
    if "RFFT" in str(op.attributes["fft_type"]):  # RFFT and IRFFT
        return
    lengths = list(ir.DenseI64ArrayAttr(op.attributes["fft_length"]))
    sizes = list(ir.RankedTensorType(op.operands[0].type).shape)[-len(lengths) :]
    if lengths != sizes:
        raise VerificationError(
            f"the module's fft has the lengths {lengths}, expected {sizes}, the sizes of the axes "
            "that it transforms"
        )


def _verify_composite(op: ir.Operation) -> None:
    """Check that XLA uses the decomposition of a ``stablehlo.composite``.

    XLA ignores the decomposition of some composites whose names have a prefix such as ``chlo.``.

    Raises:
        VerificationError: for a name with such a prefix.
    """
    name = ir.StringAttr(op.attributes["name"]).value
    if name.startswith(_OPERATION_PREFIXES):
        raise VerificationError(f"the module has a composite operation {name}, {_TRUST_NEEDED}")


_VERIFIERS = {
    "func.func": _keep_names_of_values,
    "stablehlo.composite": _verify_composite,
    "stablehlo.custom_call": verify_call,
    "stablehlo.fft": _verify_transform_lengths,
    "stablehlo.select_and_scatter": _verify_windows,
    "stablehlo.sort": verify_comparator,
}


def _verify_operation(op: ir.Operation, *, any_element: bool) -> None:
    """Check the types of an untrusted operation, and rules for callbacks and gates.

    Args:
        op: the operation; its results and the arguments of its blocks are checked.
        any_element: whether arrays may have any element type.

    Raises:
        VerificationError: for a type that `_verify_type` does not allow, a ``callback.call`` of a
            kind that only passes create, a ``callback.func`` with a nested module, or gates
            that `verify_gates` rejects.
    """
    name = op.name
    for type_ in _iterate_types(op):
        _verify_type(type_, any_element=any_element)
    if name == "callback.call" and callback.CallOp(op).kind not in _KINDS:
        raise VerificationError(
            f"callback.call has the kind '{callback.CallOp(op).kind}'; the kinds of saved programs "
            f"are {', '.join(_KINDS)}"
        )
    if name == "callback.func" and callback.FuncOp(op).module is not None:
        raise VerificationError("callback.func has a module, which saved programs do not have")
    if name in ("quantum.gates", "quantum.run"):
        verify_gates(op)


def _iterate_types(op: ir.Operation) -> Iterator[ir.Type]:
    """Yield the types of an operation's results and of its blocks' arguments."""
    yield from (result.type for result in op.results)
    for region in op.regions:
        for block in region:
            yield from (argument.type for argument in block.arguments)


def _verify_type(type_: ir.Type, *, any_element: bool) -> None:
    """Check that a type is a token, or a static array of supported size and elements.

    ``any_element`` allows all element types.

    Raises:
        VerificationError: if it is not.
    """
    if callback.is_token(type_):
        return
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        raise VerificationError(
            f"the module has a value of type {type_}, expected an array of static shape"
        )
    if not any_element and str(type_.element_type) not in ELEMENTS:
        raise VerificationError(
            f"the module has a value with elements of type {type_.element_type}, {_TRUST_NEEDED}"
        )
    # An axis without entries must not hide the sizes of other axes, which NumPy limits.
    if 16 * math.prod(max(1, size) for size in type_.shape) > _LARGEST_VALUE:
        counted = ", where an axis of size 0 counts as 1" if 0 in type_.shape else ""
        raise VerificationError(
            f"the module has a value of type {type_}, expected at most {_LARGEST_VALUE // 16} "
            f"elements{counted}"
        )


def _verify_calls(module: ir.Module) -> None:
    """Check that calls in an untrusted module are not recursive, too deep or too many.

    Raises:
        VerificationError: for recursion, for calls nested deeper than ``_DEEPEST_CALLS``, for
            functions without a body, and if a function has more than ``_MOST_OPERATIONS``
            operations when all calls in it are inlined.
    """
    by_name = find_functions(module)
    for name, function in by_name.items():
        if not len(function.regions[0].blocks):
            raise VerificationError(f"the function @{name} has no body")
    graph = build_call_graph(module)
    sizes: dict[str, int] = {}
    depths: dict[str, int] = {}
    for name in _sort_callees_first(graph):
        depths[name] = 1 + max((depths[callee] for callee in graph[name]), default=0)
        if depths[name] > _DEEPEST_CALLS:
            raise VerificationError(
                f"the module's calls are nested {depths[name]} deep, expected at most "
                f"{_DEEPEST_CALLS}"
            )
        ops = list_operations(by_name[name])
        sizes[name] = len(ops) + sum(
            sizes.get(callee, 0) for op in ops for callee in iterate_references(op)
        )
        if sizes[name] > _MOST_OPERATIONS:
            raise VerificationError(
                f"inlining all calls of @{name} gives {sizes[name]} operations, expected at most "
                f"{_MOST_OPERATIONS}"
            )


def _sort_callees_first(graph: CallGraph) -> Iterator[str]:
    """Yield the symbols of all functions so that callees come before their callers.

    Raises:
        VerificationError: for a recursive function.
    """
    done: set[str] = set()
    in_progress: set[str] = set()
    stack = list(graph)
    while stack:
        name = stack[-1]
        if name in done:
            stack.pop()
        elif name in in_progress:
            stack.pop()
            in_progress.discard(name)
            done.add(name)
            yield name
        else:
            in_progress.add(name)
            waiting = graph[name] - done
            if waiting & in_progress:
                raise VerificationError(f"the function @{name} is recursive")
            stack += waiting
