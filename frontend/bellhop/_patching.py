"""Patches of other libraries: of JAX in ``_jax/patches/``, of PennyLane in ``_pennylane/patches/``.

A patch is a function that replaces something of a library, once::

    @patch("the transposition rule of while", "loops of computed length have a reverse mode")
    def patch_while_transpose(rule): ad.primitive_transposes[while_p] = rule

    patch_while_transpose(rule)      # installed, once per process
    installed_patches()                    # {"the transposition rule of while": "loops of computed
    ..."}

Importing bellhop installs none of JAX, and one of Lightning where that is imported, or else when it
is (``call_when_imported``).  The docstring of each file says what is replaced and why, in which
versions, what upstream would make it needless, when it is installed, and the test for it.
"""

import functools
import importlib.metadata
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from bellhop._versions import SUPPORTED
from bellhop.errors import CompileError

# Packages by the names of their modules.
_PACKAGES = {"jax": "jax", "malt": "diastatic-malt", "pennylane": "pennylane"}

_in_force: dict[str, str] = {}
# A patch may install another one.
_lock = threading.RLock()


def patch(replaced: str, reason: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a function that installs a patch: only its first call does.

    Args:
        replaced: the part of the library that is replaced.
        reason: what the patch is for.
    """

    def decorate(install: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(install)
        def install_once(*arguments: Any) -> None:
            if replaced in _in_force:
                return
            with _lock:
                if replaced not in _in_force:
                    install(*arguments)
                    _in_force[replaced] = reason

        return install_once

    return decorate


def original(owner: Any, name: str) -> Any:
    """Return the part of a library that a patch replaces.

    Raises:
        CompileError: where the version that is installed does not have it.
    """
    try:
        return getattr(owner, name)
    except AttributeError as error:
        place = getattr(owner, "__name__", str(owner))
        library = getattr(owner, "__module__", place).partition(".")[0]
        package = _PACKAGES[library]
        raise CompileError(
            f"{package} {importlib.metadata.version(package)} has no {place}.{name}, "
            f"which bellhop has to replace. Install {package}{SUPPORTED[package]}."
        ) from error


def call_when_imported(module: str, change: Callable[[Any], None]) -> None:
    """Hand a module to ``change``: now if it is imported, else when it is."""
    if module in sys.modules:
        # Another thread may be importing it, which this waits for.
        change(importlib.import_module(module))
    else:
        sys.meta_path.insert(0, _ImportHook(module, change))


class _ImportHook:
    """Import hook that calls `change` on one module right after it is first imported.

    The hook is removed only then, so lookups and failed imports do not use it up.
    """

    def __init__(self, module: str, change: Callable[[Any], None]):
        self._module = module
        self._change = change

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        if name != self._module:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_change(module: Any) -> None:
                run(module)
                self._change(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            loader.exec_module = run_and_change
        return spec


def installed_patches() -> dict[str, str]:
    """Return the patches that are installed: what each replaces, and its reason."""
    return dict(_in_force)
