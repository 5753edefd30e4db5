"""Compares a script's calls under two installations of Bellhop."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .compare import arrays_agree
from .verdict import AGREES, Verdict

# Outcomes of one script: for each call either {"error": type} or {"values": [...]}.
Outcomes = Sequence[dict[str, Any]]


def describe_outcomes(calls: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert what came of each call to values that JSON can hold.

    Args:
        calls: the script's ``outcomes``, tuples of result or exception, events and options.

    Returns:
        For each call the type and text of its exception, or path, dtype, shape and flat values of
        each leaf of its result. Complex values are pairs of numbers.
    """
    return [_describe(result) for result, *_ in calls]


def _describe(result: Any) -> dict[str, Any]:
    if isinstance(result, Exception):
        return {"error": type(result).__name__, "text": str(result)[:500]}
    leaves = jax.tree.flatten_with_path(result)[0]
    return {"values": [[jax.tree_util.keystr(path), *_encode(leaf)] for path, leaf in leaves]}


def _encode(leaf: Any) -> tuple[str, list[int], list[Any]]:
    if isinstance(leaf, str):
        return "text", [], [leaf]
    array = np.asarray(leaf)
    dtype = np.dtype(getattr(leaf, "dtype", array.dtype)).name
    if np.iscomplexobj(array):
        return dtype, list(array.shape), [[x.real, x.imag] for x in array.ravel().tolist()]
    wide = array.astype(float) if dtype in ("float16", "bfloat16") else array
    return dtype, list(array.shape), wide.ravel().tolist()


def compare_outcomes(ours: Outcomes, others: Outcomes) -> Verdict:
    """Compare a script's calls under this installation and under another one.

    A call that raises under the other installation alone is an ability that this installation
    gained; the verdict counts it and agrees. Later calls may have been fed by that call's result,
    so the comparison ends there.
    """
    for number, (here, there) in enumerate(zip(ours, others, strict=True)):
        where = f"call {number}"
        if "error" in here and "error" in there:
            if here["error"] != there["error"]:
                kinds = f"{here['error']} instead of {there['error']}"
                return Verdict(
                    f"another error: {kinds}",
                    f"{where}: {here['text']}\ninstead of {there['text']}",
                )
            continue
        if "error" in here:
            words = " ".join(re.findall(r"\b[A-Za-z_]+\b", here["text"])[:8])
            return Verdict(
                f"an error here alone: {here['error']} {words}", f"{where}: {here['text']}"
            )
        if "error" in there:
            return Verdict(AGREES, refused=(f"the other installation alone: {there['error']}",))
        difference = _compare_values(here["values"], there["values"])
        if difference:
            return Verdict("another value than the other installation", f"{where}{difference}")
    return Verdict(AGREES)


def _compare_values(ours: list[Any], others: list[Any]) -> str:
    """Return the first difference between the leaves of two results; empty if they agree."""
    if [leaf[:3] for leaf in ours] != [leaf[:3] for leaf in others]:
        return f": {[leaf[:3] for leaf in ours]} instead of {[leaf[:3] for leaf in others]}"
    for (path, dtype, _, values), (*_, needed) in zip(ours, others, strict=True):
        if dtype == "text":
            agree = values == needed
        else:
            agree = arrays_agree(
                np.asarray(values, float), np.asarray(needed, float), dtype, "random" in path
            )
        if not agree:
            return f"{path}: {values} instead of {needed}"
    return ""


def judge_against(
    judge: Callable[[str], Verdict], judge_other: Callable[[str], Verdict]
) -> Callable[[str], Verdict]:
    """Return a function that judges a script here, and then compares it with another installation.

    Args:
        judge: runs a script under this installation and compares it with its reference.
        judge_other: runs a script under the other installation.
    """

    def judge_both(source: str) -> Verdict:
        verdict = judge(source)
        if not verdict.agrees:
            return verdict
        other = judge_other(source)
        if not other.outcomes:
            # The other installation died, or the script did not come to its calls.
            return dataclasses.replace(
                verdict, refused=(*verdict.refused, f"the other installation: {other.kind}")
            )
        compared = compare_outcomes(verdict.outcomes, other.outcomes)
        return dataclasses.replace(compared, refused=(*verdict.refused, *compared.refused))

    return judge_both
