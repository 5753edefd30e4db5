"""Kinds of callback calls, and what passes may do with each: they ask here, and name none."""

from dataclasses import dataclass


@dataclass(frozen=True)
class CallbackKind:
    """What the compiler may do with calls of a kind.

    Attributes:
        name: as calls have it.
        custom_call: what they become, of ``runtime/contract.toml``.
        is_pure: whether they may be merged, dropped and moved.
        is_awaited: whether the program goes on only when the call is over.
        only_reports: whether they are made for what Python does alone.
        is_host_only: whether they are made by programs on the CPU alone.
        is_traced: whether programs have them before the passes.
        calls_python: whether the runtime needs Python for a call.
        takes_table: whether the program's table is the first operand of the custom call. Without
            it the program has a key of its own in the process.
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
        # Returns how many iterations to do before the next one.
        CallbackKind("progress", "bellhop_progress", is_host_only=True),
        # The two halves of the call of a region.
        CallbackKind("start", "bellhop_region_start", is_awaited=False, is_traced=False),
        CallbackKind("done", "bellhop_region_done", is_traced=False),
        # Lets go of an array that a region kept on its device.
        CallbackKind("release", "bellhop_region_release", is_awaited=False, is_traced=False),
    )
}
