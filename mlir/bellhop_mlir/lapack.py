"""The calls of LAPACK that JAX's linear algebra makes, and what they take and return.

jaxlib's kernels believe the shapes of their results: a wrong one is written past its end.
"""

import re

from bellhop_mlir._bindings import ir
from bellhop_mlir._walk import string_attribute
from bellhop_mlir.errors import VerificationError

# Operands and results, each an element and its dimensions behind those of the batch.  Elements: T,
# the kernel's own; R and C, the real and the complex one of its precision; i, i32.  Dimensions are
# alike where their letters are, but k is the smaller of m and n, and h is one less than n.
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
# Those whose attribute chooses, by its name and its value.
_FORMS_BY_ATTRIBUTE = {
    "gesdd": ("mode", _SINGULAR_VALUES),
    "gesvd": ("mode", _SINGULAR_VALUES),
    "trsm": ("side", {76: "Tmm Tmn -> Tmn", 82: "Tnn Tmn -> Tmn"}),
    # Sorted ones (83) would call a function that is not there.
    "gees": ("sort", {78: "Tnn -> Tnn Tnn Tn [Tn] i i"}),
    "geev": ("compute_left", dict.fromkeys((78, 86), "Tnn -> Tn [Tn] Cnn Cnn i")),
}
_ELEMENTS = {
    "s": {"T": "f32", "R": "f32", "C": "complex<f32>"},
    "d": {"T": "f64", "R": "f64", "C": "complex<f64>"},
    "c": {"T": "complex<f32>", "R": "f32", "C": "complex<f32>"},
    "z": {"T": "complex<f64>", "R": "f64", "C": "complex<f64>"},
}
# The characters that LAPACK takes as each attribute; gehrd's are the rows that it works on.
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
# Attributes of the call that JAX gives, besides the ones that ``_CHARACTERS`` are in.
_VERSION = 4
_TARGET = re.compile(r"lapack_(?P<type>[sdcz])(?P<kernel>\w+)_ffi")


def verify_call(op: ir.Operation) -> None:
    """Refuse a ``stablehlo.custom_call`` but of LAPACK, as JAX makes it.

    Raises:
        VerificationError: naming the target.
    """
    target = string_attribute(op, "call_target_name")
    match = _TARGET.fullmatch(target)
    form = None if match is None else _find_form(op, match["kernel"], is_real=match["type"] in "sd")
    if match is None or form is None:
        raise VerificationError(f"it calls {target}, which is none of the functions of JAX")
    operands, _, results = form.partition(" -> ")
    values = [*op.operands, *op.results]
    count = len(operands.split()), len(results.split())
    forms = [*operands.split(), *results.split()]
    if (len(op.operands), len(op.results)) != count or not _match_forms(
        [ir.RankedTensorType(value.type) for value in values], forms, _ELEMENTS[match["type"]]
    ):
        raise VerificationError(f"it calls {target} with other types than ({form})")
    _verify_configuration(op, target)


def _verify_configuration(op: ir.Operation, target: str) -> None:
    """Refuse what a kernel would believe, but JAX does not say."""
    if "called_computations" in op.attributes and len(
        ir.ArrayAttr(op.attributes["called_computations"])
    ):
        raise VerificationError(f"it calls {target} with a function, which no kernel takes")
    if (
        "api_version" in op.attributes
        and ir.IntegerAttr(op.attributes["api_version"]).value != _VERSION
    ):
        raise VerificationError(f"it calls {target} by another version of XLA's interface")
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
            raise VerificationError(f"it calls {target} with {named.name} = {value}")


def _find_form(op: ir.Operation, kernel: str, *, is_real: bool) -> str | None:
    if kernel in _FORMS:
        return _FORMS[kernel]
    name, forms = _FORMS_BY_ATTRIBUTE.get(kernel, ("", {}))
    if "mhlo.backend_config" not in op.attributes:
        return None
    config = op.attributes["mhlo.backend_config"]
    if name not in config or not isinstance(config[name], ir.IntegerAttr):
        return None
    form = forms.get(int(config[name].value))
    # Of real matrices, eigenvalues are two vectors: real and imaginary parts.
    return form and (form.replace("[Tn]", "Tn") if is_real else form.replace("[Tn] ", ""))


def _match_forms(
    types: list[ir.RankedTensorType], forms: list[str], elements: dict[str, str]
) -> bool:
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
