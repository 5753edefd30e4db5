"""A row of a profile."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileRow:
    """All host calls of one call site.

    Attributes:
        kind: ``"program"``, a call of a ``qjit`` function; the kind of a callback, as
            ``"pure_callback"``; ``"tap"``, the program's time, and ``"tap call"``, the other
            thread's time; ``"region on cuda:0"``, and its two halves ``start`` and ``wait`` if it
            runs concurrently with the program; ``"circuit"``, and ``"circuit, derivative"`` if it
            is recorded for a derivative, both with the suffix ``", engine"`` if Bellhop's engine
            ran it; ``"circuit, in the program: ..."``, with a reason, for a circuit that is part of
            a ``qjit`` function, without its time; ``"compilation"``.
        name: name of the function.
        definition: ``file:line`` of its definition.
        site: ``file:line`` of its call in the program; empty where Bellhop does not record it, as
            for circuits.
        calls: number of calls; each row of a batch of circuits counts, and a circuit in the program
            counts once for each call of the program.
        failed: number of calls that raised an exception.
        total: total seconds outside of the program; of a circuit, in its device.
        median: median seconds of the calls that are stored individually; NaN if none is.
        waited: seconds of ``total`` spent waiting for the GIL.
        bytes_out: bytes sent by the program; of a region, including bytes that its device received
            from another device.
        bytes_in: bytes received by the program.

    Example:
        >>> import bellhop
        >>> f = bellhop.qjit(lambda x: x + 1)
        >>> y = f(1.0)
        >>> with bellhop.profile() as p:
        ...     y = f(2.0)
        >>> row = p.rows[0]
        >>> row.kind, row.name, row.calls, row.failed
        ('program', '<lambda>', 1, 0)
    """

    kind: str
    name: str
    definition: str
    site: str
    calls: int
    failed: int
    total: float
    median: float
    waited: float
    bytes_out: int
    bytes_in: int
