"""Measuring one case: rounds interleaved over the frameworks, values compared.

Frameworks take turns (A B C A B C ...), so that what else the machine does hits
all of them alike, and the median over the rounds drops what hit one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.case import LIMIT, SIMULATORS, Case
from benchmarks.client import Client, WorkerError

# OpenMP's threads spin for some milliseconds after their last region.
SETTLE_S = 0.02


@dataclass(frozen=True)
class Settings:
    """How long to measure."""

    rounds: int
    compile_rounds: int
    #: Calls are repeated until a round takes about this long.
    round_s: float
    #: A framework that is silent for longer is given up for this case.
    timeout_s: float
    #: Slow cases get fewer rounds, so that no framework's take longer together.
    case_s: float = 20.0


@dataclass
class Outcome:
    """What one framework did with one case."""

    unavailable: str | None = None
    #: Seconds of one call, for each round.
    run_s: list[float] = field(default_factory=list)
    #: Seconds of the first call of a freshly built program, for each round.
    first_s: list[float] = field(default_factory=list)
    compiles: bool = True

    @property
    def run(self) -> float | None:
        """Median seconds of a call."""
        return median(self.run_s) if self.run_s else None

    @property
    def compile(self) -> float | None:
        """Median seconds of the first call, less those of a call."""
        if self.run is None or not self.compiles:
            return None
        return max(0.0, median(self.first_s) - self.run)


@dataclass
class Result:
    """One row: an outcome for each framework, and whether the values are right."""

    case: Case
    outcomes: dict[str, Outcome]
    #: Set where frameworks disagree; the times are those of wrong programs then.
    wrong: str | None = None


class Measurement:
    """Takes one case through its clients; a client that fails drops out."""

    def __init__(self, case: Case, clients: Mapping[str, Client | str], settings: Settings) -> None:
        """Use a client for each framework, or the reason why there is none."""
        self._settings = settings
        self._clients: dict[str, Client] = {}
        self.result = Result(case, {})
        for framework, client in clients.items():
            if framework in SIMULATORS and framework not in case.builders:
                continue
            outcome = self.result.outcomes[framework] = Outcome()
            if framework not in case.builders:
                if framework != LIMIT:
                    outcome.unavailable = case.unavailable[framework]
            elif isinstance(client, str):
                outcome.unavailable = client
            else:
                self._clients[framework] = client

    def measure(self) -> Result:
        """Compile, compare and time."""
        self._compile()
        self._compare()
        if self.result.wrong is None:
            self._time()
        return self.result

    def _ask(self, framework: str, do: str, **arguments: object) -> Any:
        try:
            return self._clients[framework].ask(do, self._settings.timeout_s, **arguments)
        except WorkerError as error:
            self.result.outcomes[framework].unavailable = str(error)
            del self._clients[framework]
            return None

    def _compile(self) -> None:
        rounds = self._settings.compile_rounds
        for turn in range(rounds):
            for framework in list(self._clients):
                first = self.result.outcomes[framework].first_s
                if sum(first) > self._settings.case_s:
                    continue
                time.sleep(SETTLE_S)
                seconds = self._ask(framework, "compile", case=self.result.case.name)
                if seconds is None:
                    continue
                first.append(seconds)
                if turn == 0 and not self._ask(framework, "compiles"):
                    self.result.outcomes[framework].compiles = False

    def _values(self) -> dict[str, np.ndarray]:
        values: dict[str, np.ndarray] = {}
        with tempfile.TemporaryDirectory() as folder:
            for framework in list(self._clients):
                path = Path(folder, f"{framework}.npy")
                if self._ask(framework, "value", path=str(path)):
                    values[framework] = np.load(path, allow_pickle=False)
        return values

    def _compare(self) -> None:
        values = self._values()
        if not values:
            return
        expected = self.result.case.expected
        if expected is not None:
            reference = np.asarray(expected())
        else:
            # Without a known value, the limit's is the one no compiler touched.
            reference = values.get(LIMIT, next(iter(values.values())))
        wrong = [
            f"{name} {_show(value)}"
            for name, value in values.items()
            if not _agree(value, reference, self.result.case.tolerance)
        ]
        if wrong:
            self.result.wrong = f"not {_show(reference)}: {', '.join(wrong)}"

    def _time(self) -> None:
        calls: dict[str, int] = {}
        slowest = 0.0
        for framework in list(self._clients):
            calibrated = self._ask(framework, "calibrate", target=self._settings.round_s)
            if calibrated is not None:
                calls[framework], seconds = calibrated
                slowest = max(slowest, seconds)
        for _ in range(self._rounds(slowest)):
            for framework in list(self._clients):
                time.sleep(SETTLE_S)
                seconds = self._ask(framework, "measure", calls=calls[framework])
                if seconds is not None:
                    self.result.outcomes[framework].run_s.append(seconds)

    def _rounds(self, slowest: float) -> int:
        """Return the rounds of every framework, fewer where one round takes long."""
        rounds = self._settings.rounds
        affordable = int(self._settings.case_s / max(slowest, self._settings.round_s))
        return min(rounds, max(3, affordable))


def _agree(value: np.ndarray, reference: np.ndarray, tolerance: float) -> bool:
    return value.shape == reference.shape and np.allclose(
        value, reference, rtol=tolerance, atol=tolerance
    )


def _show(value: np.ndarray) -> str:
    """Show the shape and the first elements, enough to tell values apart."""
    first = ", ".join(f"{element:.12g}" for element in value.reshape(-1)[:3])
    return f"{value.shape} [{first}{', ...' if value.size > 3 else ''}]"
