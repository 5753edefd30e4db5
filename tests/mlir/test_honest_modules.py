"""What JAX's lowerings emit is what a module of unknown origin may have."""

import jax
import pytest
from tests.mlir.jax_programs import PROGRAMS

from bellhop_mlir.errors import VerificationError
from bellhop_mlir.module_validation import parse_untrusted

# Registered with XLA, and no function of LAPACK's.
OTHER_CALLS = {"approx_max_k": "the module calls ApproxTopK"}


def check(name):
    function, args = PROGRAMS[name]
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*args).as_text()
    if name in OTHER_CALLS:
        with pytest.raises(VerificationError, match=OTHER_CALLS[name]):
            parse_untrusted(text)
    else:
        parse_untrusted(text)


# One of each kind, and then all.
@pytest.mark.parametrize(
    "name", ["sort several", "linalg svd", "conv gradient", "scan", "composite"]
)
def test_some_programs_of_jax(name):
    check(name)


@pytest.mark.large
@pytest.mark.filterwarnings("ignore:Casting from complex to real")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_jax(name):
    check(name)
