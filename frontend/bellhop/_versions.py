"""The versions of other packages that bellhop was tried with.

It replaces and uses parts of them that nobody promises to keep::

    is_supported("jax", "0.12.0.1")     True
    is_supported("jax", "0.13.0")       False
    SUPPORTED["jax"]                    ">=0.10,<0.13"
"""

import re
import warnings

import jax

#: The same ranges, where they are dependencies, as in ``pyproject.toml``.
SUPPORTED = {
    "jax": ">=0.10,<0.13",
    "jaxlib": ">=0.10,<0.13",
    "pennylane": ">=0.45,<0.46",
    # A compiled interface in C++, whose layout is known of this version only.
    "pennylane-lightning": ">=0.45,<0.46",
    "pennylane-lightning-kokkos": ">=0.45,<0.46",
    "diastatic-malt": ">=2.15,<2.16",
}


def is_supported(package: str, version: str) -> bool:
    """Tell whether a version of a package is supported; of a package without a range, any is."""
    if package not in SUPPORTED:
        return True
    first, end = map(_release, SUPPORTED[package].split(","))
    return first <= _release(version) < end


def _release(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version: ``(0, 13)`` of ``0.13.0.dev20270101``."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def warn_of_unknown_jax() -> None:
    """Warn of a version of JAX that is not supported, in the name of who imports bellhop."""
    if not is_supported("jax", jax.__version__):
        warnings.warn(
            f"jax {jax.__version__} is not a version that bellhop knows, and parts of JAX that it "
            "uses may have changed. Supported is jax" + SUPPORTED["jax"] + ": "
            f'pip install "jax{SUPPORTED["jax"]}".',
            stacklevel=3,
        )
