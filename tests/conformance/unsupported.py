"""Cells of the support matrix that raise an error, and why."""

from dataclasses import dataclass

from tests.conformance.support import WITHOUT_SHOTS, Cell


@dataclass(frozen=True)
class Unsupported:
    """Cells that raise one error.

    Attributes:
        device: name of the device.
        rows: rows of the cells; all rows if empty.
        columns: columns of the cells; all columns if empty.
        words: a part of the error's message.
        reason: what the page says.
    """

    device: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    words: str
    reason: str

    def has(self, cell: Cell) -> bool:
        """Return whether a cell raises this error."""
        return (
            cell.device == self.device
            and (not self.rows or cell.row in self.rows)
            and (not self.columns or cell.column in self.columns)
        )


_BACKPROP = 'PennyLane has no `backprop` on this device. Use `diff_method="best"`.'
_ADJOINT = 'PennyLane has no adjoint method on this device. Use `diff_method="best"`.'
_SHOTS = 'the method needs exact states. Use `"best"` or `"parameter-shift"`.'
_SCORE = "shots are differentiated once, by the likelihood of samples. Use `lightning.qubit`."
_NOISE = "channels need a density matrix. Use `default.mixed`."
_SAMPLED = (
    "expval",
    "expval of a Hamiltonian",
    "expval of a Hermitian",
    "var",
    "probs",
    "shadow_expval",
)
_TAPES = "the device gets tapes of static length. Use static bounds, or `lightning.qubit`."
_DYNAMIC_LOOPS = (
    "loop with a dynamic trip count",
    "measurement in a loop with a dynamic trip count",
)
_PROJECTOR = (
    "PennyLane defers the measurement, and the device has no projector. Use `lightning.qubit`."
)
_SHIFTS = "PennyLane's parameter shifts do not differentiate a matrix. Use `lightning.qubit`."
_RESULTS = (
    "tapes are differentiated by PennyLane, for expval, var and probs. Use `lightning.qubit`."
)
_SHADOWS = "`reference.qubit` measures no shadows. Use `lightning.qubit`."
_UNNAMED = "the file names the QNode, which must be defined at the top level of a module."

UNSUPPORTED = (
    Unsupported("lightning.qubit", ("backprop",), (), "does not support backprop", _BACKPROP),
    Unsupported("lightning.qubit", ("adjoint",), ("grad, shots",), "has shots", _SHOTS),
    Unsupported("lightning.qubit", ("noise channel",), (), "does not apply BitFlip", _NOISE),
    Unsupported("default.qubit", ("noise channel",), (), "does not apply BitFlip", _NOISE),
    Unsupported(
        *("default.qubit", ("adjoint", "backprop"), ("grad, shots",)),
        *("is not supported on default.qubit with shots", _SHOTS),
    ),
    Unsupported("default.qubit", _SAMPLED, ("Hessian, shots",), "differentiated twice", _SCORE),
    Unsupported("default.mixed", _SAMPLED, ("Hessian, shots",), "differentiated twice", _SCORE),
    Unsupported("default.mixed", ("adjoint",), (), "does not support adjoint", _ADJOINT),
    Unsupported(
        "default.mixed", ("backprop",), ("grad, shots",), "on default.mixed with shots", _SHOTS
    ),
    Unsupported("reference.qubit", ("adjoint",), (), "does not support adjoint", _ADJOINT),
    Unsupported("reference.qubit", ("backprop",), (), "does not support backprop", _BACKPROP),
    Unsupported(
        *("reference.qubit", _DYNAMIC_LOOPS, ()),
        *("tapes for devices that run in Python", _TAPES),
    ),
    Unsupported(
        *("reference.qubit", tuple(sorted(WITHOUT_SHOTS)), ("grad", "Hessian")),
        *("is not supported on reference.qubit", _RESULTS),
    ),
    Unsupported(
        *("reference.qubit", ("classical_shadow", "shadow_expval"), ()),
        *("has no attribute 'process_samples'", _SHADOWS),
    ),
    Unsupported("reference.qubit", ("noise channel",), (), "BitFlip", _NOISE),
    Unsupported("reference.qubit", ("postselection",), (), "Postselection is not", _PROJECTOR),
    Unsupported(
        *("reference.qubit", ("traced observable (`Hermitian`)",), ("grad", "grad, shots")),
        *("to the matrix of Hermitian", _SHIFTS),
    ),
    Unsupported("reference.qubit", ("`save` and `load`",), (), "cannot be saved", _UNNAMED),
    Unsupported("default.clifford", ("`save` and `load`",), (), "cannot be saved", _UNNAMED),
)


def find_unsupported(cell: Cell) -> Unsupported | None:
    """Return the entry of a cell that raises an error, or None."""
    return next((entry for entry in UNSUPPORTED if entry.has(cell)), None)
