"""Kinds of callback calls, and their properties for passes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CallbackKind:
    """A kind of ``callback.call``, with its properties for passes and conversion.

    Attributes:
        name: name of the kind.
        custom_call: custom call in ``runtime/contract.toml`` to which calls of this kind are
            converted.
        is_pure: whether calls may be merged, dropped and hoisted.
        is_awaited: whether the program waits for the end of a call.
        only_reports: whether calls exist only for their effects in Python.
        is_host_only: whether only programs on the CPU make such calls.
        is_traced: whether JAX's tracing produces such calls. Calls of other kinds come from passes,
            and a saved module has none.
        calls_python: whether the runtime needs Python for a call.
        takes_table: whether the first operand of the custom call is the program's table of
            callbacks, in which the runtime finds the Python function. Calls without the table
            identify their program by a key that is unique in the process.
    """

    name: str
    custom_call: str = "bellhop_callback"
    is_pure: bool = False
    is_awaited: bool = True
    only_reports: bool = False
    is_host_only: bool = False
    is_traced: bool = True
    calls_python: bool = True
    takes_table: bool = True


KINDS = {
    kind.name: kind
    for kind in (
        CallbackKind("pure", is_pure=True),
        CallbackKind("io"),
        CallbackKind("debug", only_reports=True),
        # C functions, without and with effects.
        CallbackKind(
            "native", "bellhop_native", is_pure=True, calls_python=False, takes_table=False
        ),
        CallbackKind("native_io", "bellhop_native", calls_python=False, takes_table=False),
        CallbackKind("tap", "bellhop_tap", is_awaited=False, only_reports=True),
        # Returns the number of iterations before the next call.
        CallbackKind("progress", "bellhop_progress", is_host_only=True),
        # The two halves of a region's call.
        CallbackKind("start", "bellhop_region_start", is_awaited=False, is_traced=False),
        CallbackKind("done", "bellhop_region_done", is_traced=False),
        # Frees an array that a region kept on its device.
        CallbackKind("release", "bellhop_region_release", is_awaited=False, is_traced=False),
    )
}
