"""The versions of other packages that Bellhop supports.

Bellhop uses and replaces private parts of these packages, which any release may change::

    is_supported("jax", "0.12.0.1")     True
    is_supported("jax", "0.13.0")       False
    SUPPORTED["jax"]                    ">=0.10,<0.13"
"""

import re
import warnings

import jax

#: Supported ranges of versions; ranges of dependencies are equal in ``pyproject.toml``, except that
#: diastatic-malt is a dependency of PennyLane.
SUPPORTED = {
    "jax": ">=0.10,<0.13",
    "jaxlib": ">=0.10,<0.13",
    "pennylane": ">=0.45,<0.46",
    # Bellhop calls its C++ interface, whose binary layout may change with each version.
    "pennylane-lightning": ">=0.45,<0.46",
    "pennylane-lightning-kokkos": ">=0.45,<0.46",
    "diastatic-malt": ">=2.15,<2.16",
}


def is_supported(package: str, version: str) -> bool:
    """Return whether Bellhop supports a version of another package.

    Only major and minor version count. All versions of a package that is not in `SUPPORTED` are
    supported.

    Args:
        package: name of the package, as pip names it.
        version: for instance ``"0.12.0.1"``.
    """
    if package not in SUPPORTED:
        return True
    first, end = map(_release, SUPPORTED[package].split(","))
    return first <= _release(version) < end


def _release(text: str) -> tuple[int, ...]:
    """Return major and minor version: ``(0, 13)`` for ``0.13.0.dev20270101``."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))


def warn_of_unknown_jax() -> None:
    """Emit a `UserWarning` if the installed version of JAX is not supported.

    The warning names the line that imports bellhop: this function must be called at the top level
    of ``bellhop/__init__.py``.
    """
    if not is_supported("jax", jax.__version__):
        warnings.warn(
            f"jax {jax.__version__} is not a version that bellhop supports, and parts of JAX that "
            "bellhop uses may have changed. Supported is jax" + SUPPORTED["jax"] + ": "
            f'pip install "jax{SUPPORTED["jax"]}".',
            stacklevel=3,
        )
