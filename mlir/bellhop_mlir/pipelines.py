"""Pass pipelines, and the pass names of ``bellhop-opt``."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

from bellhop_mlir import dialects
from bellhop_mlir._bindings import ir
from bellhop_mlir.passes import Pass
from bellhop_mlir.transforms.callbacks.canonicalize_callbacks import CanonicalizeCallbacks
from bellhop_mlir.transforms.callbacks.coalesce_progress import CoalesceProgress
from bellhop_mlir.transforms.callbacks.convert_callback_to_runtime import ConvertCallbackToRuntime
from bellhop_mlir.transforms.callbacks.delegate_callbacks import DelegateCallbacks
from bellhop_mlir.transforms.callbacks.hoist_callbacks import HoistCallbacks
from bellhop_mlir.transforms.callbacks.order_effects import OrderEffects
from bellhop_mlir.transforms.callbacks.overlap_calls import OverlapCalls
from bellhop_mlir.transforms.callbacks.thin_calls import ThinCalls
from bellhop_mlir.transforms.circuits.convert_quantum_to_runtime import ConvertQuantumToRuntime
from bellhop_mlir.transforms.circuits.fuse_circuits import FuseCircuits
from bellhop_mlir.transforms.regions.canonicalize_regions import CanonicalizeRegions
from bellhop_mlir.transforms.regions.convert_accelerate_to_runtime import ConvertAccelerateToRuntime
from bellhop_mlir.transforms.regions.fuse_accelerate import FuseAccelerate
from bellhop_mlir.transforms.regions.inline_accelerate import InlineAccelerate
from bellhop_mlir.transforms.regions.keep_on_device import KeepOnDevice
from bellhop_mlir.transforms.regions.outline_regions import OutlineRegions
from bellhop_mlir.transforms.regions.place_results import PlaceResults
from bellhop_mlir.transforms.regions.seed_regions import SeedRegions
from bellhop_mlir.transforms.regions.take_arguments import TakeArguments
from bellhop_mlir.transforms.regions.unnest_regions import UnnestRegions
from bellhop_mlir.transforms.straight_line.outline_scalars import OutlineScalars
from bellhop_mlir.transforms.straight_line.split_long_blocks import SplitLongBlocks

OPTIMIZATION: tuple[type[Pass], ...] = (
    OrderEffects,
    OutlineRegions,
    UnnestRegions,
    PlaceResults,
    InlineAccelerate,
    SeedRegions,
    CanonicalizeCallbacks,
    HoistCallbacks,
    CoalesceProgress,
    ThinCalls,
    FuseAccelerate,
    CanonicalizeRegions,
)
# After these passes the regions of a program are nested modules, which are extracted.
REGIONS: tuple[type[Pass], ...] = (
    ConvertAccelerateToRuntime,
    KeepOnDevice,
    TakeArguments,
    OverlapCalls,
)
_CALLS: tuple[type[Pass], ...] = (
    FuseCircuits,
    ConvertCallbackToRuntime,
    ConvertQuantumToRuntime,
)
CALLS: tuple[type[Pass], ...] = (*_CALLS, OutlineScalars, SplitLongBlocks)
# For programs on GPUs and TPUs: JAX's own callbacks are used.
DELEGATED_CALLS: tuple[type[Pass], ...] = (DelegateCallbacks, *_CALLS)
CONVERSION = REGIONS + CALLS
PIPELINE: tuple[type[Pass], ...] = OPTIMIZATION + CONVERSION
PASSES: dict[str, type[Pass]] = {pass_.name: pass_ for pass_ in PIPELINE + DELEGATED_CALLS}

Observer = Callable[[str, ir.Module], None]


def run_pipeline(
    module: ir.Module,
    passes: Iterable[Pass],
    observe: Observer | None = None,
    *,
    verified: bool = False,
) -> None:
    """Run passes on a module in order, verifying it before and after each change.

    Passes whose ``needs`` the module lacks are skipped.

    Args:
        module: the module, which is changed in place.
        passes: the passes, with their options.
        observe: called as ``observe(pass_name, module)`` after each pass, also after a skipped one,
            for instance to print the module; None to observe nothing.
        verified: True if the module is known to be valid, from an earlier pipeline; it is then not
            verified before the first pass.

    Raises:
        VerificationError: if the module breaks a rule of Bellhop's dialects; a note names the pass
            after which it was found.
        MLIRError: if MLIR's own verifier rejects the module, with the same note.
        PassError: from a pass that does not support the program; a note names the pass.
    """
    with module.context, _add_note_to_errors("found before the first pass"):
        present = dialects.find_present_names(module) if verified else dialects.verify(module)
    for pass_ in passes:
        if present.issuperset(pass_.needs):
            with module.context, _add_note_to_errors(f"raised by the pass {pass_.name}"):
                changed = pass_.apply(module)
            if changed is not False:
                with module.context, _add_note_to_errors(f"found after the pass {pass_.name}"):
                    present = dialects.verify(module)
        if observe is not None:
            observe(pass_.name, module)


@contextlib.contextmanager
def _add_note_to_errors(note: str) -> Iterator[None]:
    """Add a note to any exception that is raised in a ``with`` block."""
    try:
        yield
    except Exception as error:
        error.add_note(note)
        raise
