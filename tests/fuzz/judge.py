"""Runs a script under both meanings."""

import os

# A second CPU device stands in for an accelerator.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import contextlib  # noqa: E402
import io  # noqa: E402
import re  # noqa: E402
import traceback  # noqa: E402
import warnings  # noqa: E402

import jax  # noqa: E402

import bellhop  # noqa: E402, F401  (it has 64-bit types, which the reference is to have too)

from .against import describe_outcomes  # noqa: E402
from .compare import Difference, compare  # noqa: E402
from .known import KNOWN  # noqa: E402
from .meaning import REFERENCE, run  # noqa: E402
from .verdict import AGREES, Verdict  # noqa: E402


def judge(source: str) -> Verdict:
    """Run a script, and its reference; say whether they agree."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            _cache(True)
            reference = run(source, REFERENCE, "reference")
        except Exception:
            return Verdict("the script is wrong", traceback.format_exc())
        _cache(False)
        try:
            ours = run(source, {}, "script")
            refused = compare(ours, reference)
        except Difference as difference:
            kind, details = difference.args
            cause = difference.__cause__
            trace = "".join(traceback.format_exception(cause)) if cause else ""
            return _unless_known(Verdict(kind, f"{details}\n{trace}"), source)
        except Exception as error:
            return Verdict(f"ends with {type(error).__name__}", traceback.format_exc())
        return Verdict(AGREES, "", tuple(refused), tuple(describe_outcomes(ours["outcomes"])))


def run_alone(source: str) -> Verdict:
    """Run a script without its reference; say what came of its calls."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        _cache(False)
        try:
            ours = run(source, {}, "script")
        except Exception as error:
            return Verdict(f"ends with {type(error).__name__}", traceback.format_exc())
        return Verdict("ran", outcomes=tuple(describe_outcomes(ours["outcomes"])))


def _cache(much: bool) -> None:
    """Let JAX's cache, where there is one, keep what references compile; programs come once."""
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0 if much else 1e9)


def _unless_known(verdict: Verdict, source: str) -> Verdict:
    for known in KNOWN:
        if re.search(known.details, verdict.details) and re.search(known.source, source):
            return Verdict(AGREES, refused=(f"known: {known.where}",))
    return verdict
