"""Draws programs until the time is over, and shrinks those that fail."""

import collections
import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis.errors import Flaky

from .grammar.scripts import scripts
from .verdict import Verdict

# Programs drawn from one seed; hypothesis makes later ones of parts of earlier ones.
BATCH = 12
# Failures of one kind that are shrunk: they may be of several faults.
OF_ONE_KIND = 2


class _Over(BaseException):
    """The time is over: hypothesis passes on what is no Exception, and goes on after one."""


@dataclass(frozen=True)
class Failure:
    """The smallest script that failed in one way."""

    source: str
    verdict: Verdict


@dataclass
class Search:
    """Programs drawn so far, and what came of them.

    Attributes:
        judge: runs a script.
        deadline: when the time is over, of ``time.monotonic``.
        shrinking: seconds for shrinking one failure.
        counts: how many programs came to what.
        refused: how many calls were refused for what reason.
        modes: how many programs were of what kind.
    """

    judge: Callable[[str], Verdict]
    deadline: float
    shrinking: float = 120.0
    counts: collections.Counter[str] = field(default_factory=collections.Counter)
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    modes: collections.Counter[str] = field(default_factory=collections.Counter)
    shrunk: collections.Counter[str] = field(default_factory=collections.Counter)

    def batch(self, seed: int, most: int = BATCH) -> Failure | None:
        """Draw programs from a seed until one fails in a new way; return it when it is shrunk."""
        batch = _Batch(self)

        @with_seed(seed)
        @settings(
            max_examples=most,
            database=None,
            deadline=None,
            derandomize=False,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )
        @given(scripts())
        def every(source: str) -> None:
            assert batch.passes(source)

        with contextlib.suppress(AssertionError, Flaky, _Over):
            every()
        if batch.smallest is not None:
            self.shrunk[batch.smallest.verdict.kind] += 1
        return batch.smallest


class _Batch:
    """What is known of the programs of one seed.

    Once one has failed, those that fail in another way pass: the first is shrunk.
    """

    def __init__(self, search: Search) -> None:
        self.search, self.until = search, search.deadline
        self.smallest: Failure | None = None
        self.verdicts: dict[str, Verdict] = {}

    def passes(self, source: str) -> bool:
        if source not in self.verdicts:
            if time.monotonic() > self.until:
                raise _Over
            self.verdicts[source] = self._judge(source)
        verdict = self.verdicts[source]
        if verdict.agrees or self.search.shrunk[verdict.kind] >= OF_ONE_KIND:
            return True
        if self.smallest is None:
            self.until = time.monotonic() + self.search.shrinking
        elif self.smallest.verdict.kind != verdict.kind:
            return True
        if self.smallest is None or len(source) <= len(self.smallest.source):
            self.smallest = Failure(source, verdict)
        return False

    def _judge(self, source: str) -> Verdict:
        verdict = self.search.judge(source)
        if self.smallest is None:
            self.search.counts[verdict.kind] += 1
            self.search.refused.update(verdict.refused)
            self.search.modes.update(re.findall("^# mode: (.*)", source, re.MULTILINE))
        return verdict
