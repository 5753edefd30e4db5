"""Bellhop's dialects and passes, over the MLIR that jaxlib ships.

It imports neither ``bellhop`` nor ``bellhop_runtime``; what it emits for the runtime
is written down in ``runtime/contract.toml``.
"""

from bellhop_mlir.pipelines import PIPELINE, run_pipeline

__all__ = ["PIPELINE", "run_pipeline"]
