"""The order of the passes, in the words that ``bellhop-opt`` knows them by."""

from collections.abc import Callable, Iterable, Iterator

from bellhop_mlir import dialects
from bellhop_mlir._bindings import ir
from bellhop_mlir.transforms import Pass
from bellhop_mlir.transforms.canonicalize_callbacks import CanonicalizeCallbacks
from bellhop_mlir.transforms.convert_accelerate_to_runtime import ConvertAccelerateToRuntime
from bellhop_mlir.transforms.convert_callback_to_runtime import ConvertCallbackToRuntime
from bellhop_mlir.transforms.convert_quantum_to_runtime import ConvertQuantumToRuntime
from bellhop_mlir.transforms.fuse_gates import FuseGates
from bellhop_mlir.transforms.inline_accelerate import InlineAccelerate
from bellhop_mlir.transforms.outline_regions import OutlineRegions

OPTIMIZATION: tuple[type, ...] = (
    OutlineRegions,
    InlineAccelerate,
    CanonicalizeCallbacks,
    FuseGates,
)
CONVERSION: tuple[type, ...] = (
    ConvertAccelerateToRuntime,
    ConvertCallbackToRuntime,
    ConvertQuantumToRuntime,
)
PIPELINE: tuple[type, ...] = OPTIMIZATION + CONVERSION
PASSES: dict[str, type] = {pass_.name: pass_ for pass_ in PIPELINE}

Observer = Callable[[str, ir.Module], None]


def run_pipeline(
    module: ir.Module, passes: Iterable[Pass], observe: Observer | None = None
) -> None:
    """Run passes over a module in order, and verify it before, between and after.

    Args:
        module: the module; it is changed in place.
        passes: the passes.
        observe: called with the name of a pass and the module after that pass.

    Raises:
        VerificationError: naming the pass after which the module was wrong.
        PassError: from a pass that refuses the program.
    """
    dialects.verify(module)
    with module.context:
        for pass_ in _each(passes):
            pass_.apply(module)
            try:
                dialects.verify(module)
            except Exception as error:
                error.add_note(f"found after the pass {pass_.name}")
                raise
            if observe is not None:
                observe(pass_.name, module)


def _each(passes: Iterable[Pass]) -> Iterator[Pass]:
    yield from passes
