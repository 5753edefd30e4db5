"""Patches of JAX (``_jax/patches/``) and PennyLane (``_pennylane/patches/``).

A patch is a function that replaces a part of a library, once::

    @patch("the transposition rule of while", "loops with a dynamic trip count have reverse mode")
    def patch_while_transpose(rule): replace_item(ad.primitive_transposes, while_p, rule)

    patch_while_transpose(rule)      # installed, once per process
    installed_patches()              # {"the transposition rule of while": "loops with ..."}

A patch that raises an error changes nothing: what `replace` and `replace_item` have replaced before
the error is put back, so that the patch can be installed again.

Importing bellhop does not patch JAX. It patches Lightning as soon as Lightning is imported
(``call_when_imported``).  The docstring of each patch's file names the replaced part, the reason,
the versions, the upstream change that would make it needless, when it is installed, and its test.
"""

import contextlib
import functools
import importlib.metadata
import sys
import threading
from collections.abc import Callable, MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from bellhop._versions import SUPPORTED
from bellhop.errors import CompileError

# Package of each module, as pip names it.
_PACKAGES = {"jax": "jax", "malt": "diastatic-malt", "pennylane": "pennylane"}

_in_force: dict[str, str] = {}
# Reentrant, as a patch may install a second patch.
_lock = threading.RLock()
# For each patch that is being installed, innermost last, the functions that undo its replacements.
_undo: list[contextlib.ExitStack] = []
_MISSING = object()


def patch(replaced: str, reason: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a function that replaces a part of a library.

    The decorated function installs its patch at the first call. Later calls in the process do
    nothing, for any arguments. If it raises an error, its calls of `replace` and `replace_item` are
    undone, and the next call installs the patch again.

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
                    with contextlib.ExitStack() as undo:
                        _undo.append(undo)
                        try:
                            install(*arguments)
                        finally:
                            _undo.pop()
                        # Installed as a whole: keep the replacements.
                        undo.pop_all()
                    _in_force[replaced] = reason

        return install_once

    return decorate


def replace(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a library; restore the old value if the patch fails.

    Call it inside of a function that is decorated with `patch`. The patch fails if that function
    raises an error.

    Args:
        owner: module, class, function or object of the library.
        name: name of the attribute, which may be new.
        value: the replacement.
    """
    # The raw entry, not the attribute: a class method of a class is a bound method.
    before = vars(owner).get(name, _MISSING)
    if before is _MISSING and hasattr(getattr(type(owner), name, None), "__set__"):
        # Such as the code of a function, which is not in its dictionary.
        before = getattr(owner, name)
    undo = (delattr, owner, name) if before is _MISSING else (setattr, owner, name, before)
    setattr(owner, name, value)
    _undo[-1].callback(*undo)


def replace_item(mapping: MutableMapping[Any, Any], key: Any, value: Any) -> None:
    """Set an entry of a library's dictionary; restore the old one if the patch fails.

    Call it inside of a function that is decorated with `patch`. The patch fails if that function
    raises an error.

    Args:
        mapping: the dictionary, such as JAX's rules by primitive.
        key: key of the entry, which may be new.
        value: the replacement.
    """
    before = mapping.get(key, _MISSING)
    undo = mapping.pop if before is _MISSING else functools.partial(mapping.__setitem__, key)
    mapping[key] = value
    _undo[-1].callback(undo, key if before is _MISSING else before)


def original(owner: Any, name: str) -> Any:
    """Get the attribute of a library that a patch is about to replace.

    Args:
        owner: module or class of the library.
        name: name of the attribute.

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
    """Return the installed patches: a dictionary from replaced part to reason.

    Keys and values are the arguments of `patch`.
    """
    return dict(_in_force)
