"""Bellhop's dialects and passes, for the MLIR bindings in jaxlib.

The package imports neither ``bellhop`` nor ``bellhop_runtime``; ``runtime/contract.toml`` defines
the custom calls that it emits.
"""

from bellhop_mlir.pipelines import PIPELINE, run_pipeline

__all__ = ["PIPELINE", "run_pipeline"]
