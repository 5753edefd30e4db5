"""PyTorch's ambient modes, and the modes for calls from programs."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from bellhop.frameworks.torch_tensors import import_torch

# Device types for which autocast may be enabled.
_AUTOCAST_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class TorchModes:
    """PyTorch's modes that determine the result types of a PyTorch function.

    The result types of a program are fixed. Therefore its calls run the PyTorch function in the
    modes that were set when the result types were inferred, on any thread.

    Attributes:
        autocast: device type and dtype of each enabled autocast.
        default_device: default device of new tensors.
        default_dtype: default dtype of new tensors. It is a property of the process, so calls do
            not set it.
    """

    autocast: tuple[tuple[str, Any], ...]
    default_device: Any
    default_dtype: Any

    @classmethod
    def current(cls) -> "TorchModes":
        """Return the modes that PyTorch has now, on this thread."""
        torch = import_torch()
        enabled = filter(torch.is_autocast_enabled, _AUTOCAST_DEVICES)
        autocast = tuple((device, torch.get_autocast_dtype(device)) for device in enabled)
        return cls(autocast, torch.get_default_device(), torch.get_default_dtype())

    def enter(self) -> AbstractContextManager[Any]:
        """Return a context manager that sets this autocast and default device in PyTorch.

        The default dtype is not set.
        """
        torch = import_torch()
        contexts: list[AbstractContextManager[Any]] = []
        for device in _AUTOCAST_DEVICES:
            dtype = next((dtype for name, dtype in self.autocast if name == device), None)
            if dtype is not None:
                contexts.append(torch.autocast(device, dtype=dtype))
            elif torch.is_autocast_enabled(device):
                contexts.append(torch.autocast(device, enabled=False))
        if torch.get_default_device() != self.default_device:
            contexts.append(torch.device(self.default_device))
        return _enter_all(contexts)


def disable_ambient_modes() -> AbstractContextManager[Any]:
    """Return a context manager that disables gradients, autocast and inference mode.

    Each call of a PyTorch function from a program runs in this context. The program determines the
    derivatives, tensors of inference mode have no derivatives, and backward passes should not run
    under autocast.
    """
    torch = import_torch()
    contexts: list[AbstractContextManager[Any]] = [torch.no_grad()]
    if torch.is_inference_mode_enabled():
        # Insert first, since it enables gradients.
        contexts.insert(0, torch.inference_mode(False))
    contexts += [
        torch.autocast(device, enabled=False)
        for device in _AUTOCAST_DEVICES
        if torch.is_autocast_enabled(device)
    ]
    return _enter_all(contexts)


_NOTHING: AbstractContextManager[Any] = contextlib.nullcontext()


def _enter_all(contexts: list[AbstractContextManager[Any]]) -> AbstractContextManager[Any]:
    """Combine contexts, entered in this order, into one context manager."""
    if len(contexts) < 2:
        return contexts[0] if contexts else _NOTHING
    return _enter_in_order(contexts)


@contextlib.contextmanager
def _enter_in_order(contexts: list[AbstractContextManager[Any]]) -> Iterator[None]:
    """Enter context managers in this order, and exit them in reverse order."""
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield
