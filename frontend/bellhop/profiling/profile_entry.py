"""A row of a profile."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """All crossings of one place.

    Attributes:
        kind: what crosses: ``"program"``, a call of a ``qjit`` function; what made the callback,
            as ``"pure_callback"``; ``"tap"``, what a program pays, and ``"tap call"``, what the
            other thread does; ``"region on cuda:0"``, and its two halves where it runs beside
            the program, ``start`` and ``wait``; ``"circuit"``, and ``"circuit, derivative"``
            where it is recorded for one, both with ``", engine"`` behind where Bellhop's engine
            ran it and not the device's plugin; ``"circuit, in the program: ..."``, and why, of one
            that is part of a ``qjit`` function, whose time is the program's; ``"compilation"``.
        name: of the function.
        definition: ``file:line`` where that is.
        site: ``file:line`` where it is called, if that is known.
        calls: how many there were; a batch of circuits, which ``vmap`` makes, is one for each row,
            and a circuit in the program one for each call of that.
        failed: how many of these raised.
        total: seconds outside the program, all together; of a circuit, those in its device.
        median: seconds of one; of those kept one by one.
        waited: seconds of ``total`` that were spent waiting for Python's lock, the GIL.
        bytes_out: what the program sent; of a region, also what its device got straight from
            another.
        bytes_in: what it got.

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
