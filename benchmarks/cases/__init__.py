"""All cases, in the order of the table."""

from benchmarks.case import Case
from benchmarks.cases import (
    accelerate,
    batches,
    buffers,
    callbacks,
    circuits,
    circuits_in_programs,
    clifford,
    concurrent,
    diff_methods,
    eager,
    embeddings,
    empty_call,
    first_calls,
    learning,
    long_circuits,
    losses,
    noise,
    observing,
    outcomes,
    printing,
    straight_line,
    taps,
)

_FAMILIES = (
    empty_call,
    callbacks,
    concurrent,
    buffers,
    straight_line,
    taps,
    printing,
    observing,
    accelerate,
    circuits_in_programs,
    circuits,
    batches,
    learning,
    losses,
    diff_methods,
    embeddings,
    outcomes,
    noise,
    clifford,
    eager,
    long_circuits,
    first_calls,
)

CASES: dict[str, Case] = {case.name: case for family in _FAMILIES for case in family.CASES}
