"""Patches of JAX (``_jax/patches/``) and PennyLane (``_pennylane/patches/``).

A patch is a function that replaces a part of a library, once::

    @patch("the transposition rule of while", "loops with a dynamic trip count have reverse mode")
    def patch_while_transpose(rule): ad.primitive_transposes[while_p] = rule

    patch_while_transpose(rule)      # installed, once per process
    installed_patches()              # {"the transposition rule of while": "loops with ..."}

Importing bellhop does not patch JAX. It patches Lightning as soon as Lightning is imported
(``call_when_imported``).  The docstring of each patch's file names the replaced part, the reason,
the versions, the upstream change that would make it needless, when it is installed, and its test.
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

# Package of each module, as pip names it.
_PACKAGES = {"jax": "jax", "malt": "diastatic-malt", "pennylane": "pennylane"}

_in_force: dict[str, str] = {}
# Reentrant, as a patch may install a second patch.
_lock = threading.RLock()


def patch(replaced: str, reason: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a function that replaces a part of a library.

    The decorated function installs its patch at the first call. Later calls in the process do
    nothing, for any arguments.

    Args:
        replaced: description of the replaced part, such as ``"the lowering of while"``. It
            identifies the patch and is a key of `installed_patches`.
        reason: purpose of the patch, for `installed_patches` and ``python -m bellhop doctor``.
    """

    def decorate(install: Callable[..., None]) -> Callable[..., None]:
        """Wrap `install` so that it runs once per process: the decorator of `patch`.

        Args:
            install: replaces the part of the library; its arguments depend on the patch.
        """

        @functools.wraps(install)
        def install_once(*arguments: Any) -> None:
            """Call `install` and list the patch, unless the patch is installed already."""
            if replaced in _in_force:
                return
            with _lock:
                if replaced not in _in_force:
                    install(*arguments)
                    _in_force[replaced] = reason

        return install_once

    return decorate


def original(owner: Any, name: str) -> Any:
    """Get the attribute of a library that a patch replaces.

    Args:
        owner: module or class of the library.

    Returns:
        the attribute's present value, which an earlier patch may have replaced already.

    Raises:
        CompileError: if the installed version of the library does not have the attribute; names the
            supported versions.
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
    """Call ``change(module)`` once: now, or right after the module is first imported.

    Used to patch a library that the user may import after Bellhop, or never.

    Args:
        module: full name of the module.
        change: function of the module object.
    """
    if module in sys.modules:
        # Waits if another thread is importing the module.
        change(importlib.import_module(module))
    else:
        sys.meta_path.insert(0, _ImportHook(module, change))


class _ImportHook:
    """Import hook that calls `change` on one module right after its first import.

    It is an entry of ``sys.meta_path``, which removes itself when the module has been executed.
    Until then it stays, so that ``importlib.util.find_spec`` and failed imports do not use it up.

    Args:
        module: full name of the module.
        change: function of the module object.
    """

    def __init__(self, module: str, change: Callable[[Any], None]):
        self._module = module
        self._change = change

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: Any = None
    ) -> ModuleSpec | None:
        """Find the hook's module with the other finders; make its loader call `change`.

        Python calls this method for each import, as for all entries of ``sys.meta_path``.

        Returns:
            the module's spec, with a changed loader; None for all other modules, and if no
            other finder finds the module.
        """
        if name != self._module:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, found), None)
        if spec is not None:
            loader: Any = spec.loader
            run = loader.exec_module

            def run_and_change(module: Any) -> None:
                """Execute the module, call `change` on it and remove the import hook.

                It replaces the loader's ``exec_module``.
                """
                run(module)
                self._change(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)

            loader.exec_module = run_and_change
        return spec


def installed_patches() -> dict[str, str]:
    """Return the reason of each patch that has been installed, by replaced part."""
    return dict(_in_force)
