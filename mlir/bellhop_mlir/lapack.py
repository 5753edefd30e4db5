"""Validation of LAPACK custom calls as in JAX's linear algebra.

jaxlib's kernels trust the shapes of their results, and would write out of bounds for wrong shapes.
"""

import re

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import string_attribute
from bellhop_mlir.errors import VerificationError

# Operands and results: an element type and dimensions after the batch dimensions. Element types: T,
# the kernel's type; R and C, the real and complex type of its precision; i, i32. Equal letters are
# equal dimensions; k is the minimum of m and n, and h is n - 1.
_SINGULAR_VALUES = {
    65: "Tmn -> Tmn Rk Tmm Tnn i",
    83: "Tmn -> Tmn Rk Tmk Tkn i",
    78: "Tmn -> Tmn Rk Tmu Tvn i",
}
_FORMS = {
    "potrf": "Tnn -> Tnn i",
    "getrf": "Tmn -> Tmn ik i",
    "geqrf": "Tmn -> Tmn Tk",
    "geqp3": "Tmn in -> Tmn in Tk",
    "orgqr": "Tmn Tp -> Tmn",
    "ungqr": "Tmn Tp -> Tmn",
    "syevd": "Tnn -> Tnn Rn i",
    "heevd": "Tnn -> Tnn Rn i",
    "gehrd": "Tnn -> Tnn Th i",
    "sytrd": "Tnn -> Tnn Rn Rh Th i",
    "hetrd": "Tnn -> Tnn Rn Rh Th i",
    "gtsv": "Tn Tn Tn Tnr -> Tn Tn Tn Tnr i",
}
# Kernels with several forms, by an attribute and its value.
_FORMS_BY_ATTRIBUTE = {
    "gesdd": ("mode", _SINGULAR_VALUES),
    "gesvd": ("mode", _SINGULAR_VALUES),
    "trsm": ("side", {76: "Tmm Tmn -> Tmn", 82: "Tnn Tmn -> Tmn"}),
    # Sorting (83) would call a function that does not exist.
    "gees": ("sort", {78: "Tnn -> Tnn Tnn Tn [Tn] i i"}),
    "geev": ("compute_left", dict.fromkeys((78, 86), "Tnn -> Tn [Tn] Cnn Cnn i")),
}
_ELEMENTS = {
    "s": {"T": "f32", "R": "f32", "C": "complex<f32>"},
    "d": {"T": "f64", "R": "f64", "C": "complex<f64>"},
    "c": {"T": "complex<f32>", "R": "f32", "C": "complex<f32>"},
    "z": {"T": "complex<f64>", "R": "f64", "C": "complex<f64>"},
}
# Allowed characters of each attribute; gehrd's attributes are row indices instead.
_CHARACTERS = {
    "compute_left": "NV",
    "compute_right": "NV",
    "diag": "NU",
    "mode": "ANSV",
    "side": "LR",
    "sort": "N",
    "trans_x": "NTC",
    "uplo": "LU",
}
# JAX's version of the custom call interface.
_VERSION = 4
_TARGET = re.compile(r"lapack_(?P<type>[sdcz])(?P<kernel>\w+)_ffi")


def verify_call(op: ir.Operation) -> None:
    """Check that a ``stablehlo.custom_call`` is a safe call of LAPACK.

    Target, types of operands and results, and attributes must be as JAX's linear algebra emits
    them.

    Raises:
        VerificationError: if not; the message names the target.
    """
    target = string_attribute(op, "call_target_name")
    match = _TARGET.fullmatch(target)
    if match is None or not (match["kernel"] in _FORMS or match["kernel"] in _FORMS_BY_ATTRIBUTE):
        raise VerificationError(
            f"the module calls {target}, which is not a function of JAX's linear algebra"
        )
    form = _find_form(op, match["kernel"], is_real=match["type"] in "sd")
    if form is None:
        name, by_value = _FORMS_BY_ATTRIBUTE[match["kernel"]]
        raise VerificationError(
            f"the module calls {target} with a backend configuration whose '{name}' is not one of "
            f"{', '.join(map(str, by_value))}"
        )
    operands, _, results = form.partition(" -> ")
    values = [*op.operands, *op.results]
    count = len(operands.split()), len(results.split())
    forms = [*operands.split(), *results.split()]
    if (len(op.operands), len(op.results)) != count or not _match_forms(
        [ir.RankedTensorType(value.type) for value in values], forms, _ELEMENTS[match["type"]]
    ):
        given = ", ".join(str(value.type) for value in values)
        raise VerificationError(
            f"the module calls {target} with wrong types, expected ({form}), each an element type "
            f"and a letter for each axis, got ({given})"
        )
    _verify_configuration(op, target)


def _verify_configuration(op: ir.Operation, target: str) -> None:
    """Check that the attributes of a LAPACK call have values that JAX emits.

    ``target`` is the name of the called function, for errors.

    Raises:
        VerificationError: for a called computation, another interface version, or an unknown value
            in the backend configuration.
    """
    if "called_computations" in op.attributes and len(
        ir.ArrayAttr(op.attributes["called_computations"])
    ):
        raise VerificationError(
            f"the module calls {target} with a called computation, which is not supported"
        )
    if "api_version" in op.attributes:
        version = ir.IntegerAttr(op.attributes["api_version"]).value
        if version != _VERSION:
            raise VerificationError(
                f"the module calls {target} with version {version} of XLA's interface, expected "
                f"{_VERSION}"
            )
    if "mhlo.backend_config" not in op.attributes:
        return
    size = ir.RankedTensorType(op.operands[0].type).shape[-1]
    for named in ir.DictAttr(op.attributes["mhlo.backend_config"]):
        value = int(ir.IntegerAttr(named.attr).value)
        is_known = (
            value == (1 if named.name == "low" else size)
            if named.name in ("low", "high")
            else chr(max(value, 0)) in _CHARACTERS.get(named.name, "")
        )
        if not is_known:
            raise VerificationError(
                f"the module calls {target} with {named.name} = {value}, which JAX does not emit"
            )


def _find_form(op: ir.Operation, kernel: str, *, is_real: bool) -> str | None:
    """Look up the operands and results of a LAPACK kernel, as in ``_FORMS``.

    Args:
        op: the custom call; its configuration selects the form of kernels that have several.
        kernel: name of the kernel without type and prefix, such as ``"getrf"``.
        is_real: whether the kernel is for real matrices.

    Returns:
        the form, such as ``"Tmn -> Tmn ik i"``: for each operand and result, a letter for the
        element type and a letter for each dimension. None for an unknown kernel or configuration.
    """
    if kernel in _FORMS:
        return _FORMS[kernel]
    name, forms = _FORMS_BY_ATTRIBUTE.get(kernel, ("", {}))
    if "mhlo.backend_config" not in op.attributes:
        return None
    config = op.attributes["mhlo.backend_config"]
    if name not in config or not isinstance(config[name], ir.IntegerAttr):
        return None
    form = forms.get(int(config[name].value))
    # For real matrices, eigenvalues are two vectors: real and imaginary parts.
    return form and (form.replace("[Tn]", "Tn") if is_real else form.replace("[Tn] ", ""))


def _match_forms(
    types: list[ir.RankedTensorType], forms: list[str], elements: dict[str, str]
) -> bool:
    """Return whether types match forms such as ``Tmn``, with consistent dimensions.

    Args:
        types: types of the operands, then of the results.
        forms: form of each type: a letter for the element type, and a letter for each dimension
            after the batch dimensions, which all types share. Equal letters are equal dimensions;
            ``k`` is the minimum of ``m`` and ``n``, and ``h`` is ``n - 1``.
        elements: element type, as MLIR prints it, by letter; ``i`` is always ``i32``.
    """
    first = types[0]
    rank = first.rank - (len(forms[0]) - 1)
    batch = first.shape[: max(rank, 0)]
    sizes: dict[str, int] = {}
    for type_, form in zip(types, forms, strict=True):
        element, dimensions = form[0], form[1:]
        if (
            rank < 0
            or type_.rank != rank + len(dimensions)
            or type_.shape[:rank] != batch
            or str(type_.element_type) != ({"i": "i32"} | elements)[element]
        ):
            return False
        for dimension, size in zip(dimensions, type_.shape[rank:], strict=True):
            if dimension == "k":
                known = min(sizes["m"], sizes["n"])
            elif dimension == "h":
                known = max(sizes["n"] - 1, 0)
            else:
                known = sizes.setdefault(dimension, size)
            if size != known:
                return False
    return True
