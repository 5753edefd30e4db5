"""Time the same programs under Bellhop, plain JAX and PennyLane Catalyst.

Run as `python -m benchmarks` or `python benchmarks/run.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

if not __package__:
    # Run as a script, Python puts this folder and not its parent on the path.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import environments, records, report
from benchmarks.case import FRAMEWORKS, LIMIT, SIMULATORS, Case
from benchmarks.cases import CASES
from benchmarks.client import Client, WorkerError
from benchmarks.measure import Measurement, Result, Settings

ALL = (*FRAMEWORKS, *SIMULATORS)
# On a loaded machine imports take half a minute, and what JAX compiles of a case another one.
PATIENCE_S = 300.0
FULL = Settings(rounds=9, compile_rounds=3, round_s=0.1, timeout_s=PATIENCE_S)
QUICK = Settings(rounds=3, compile_rounds=1, round_s=0.02, timeout_s=PATIENCE_S)


class Clients:
    """The workers of a run, one for each framework and number of devices."""

    def __init__(self, frameworks: Sequence[str]) -> None:
        """Start workers for `frameworks` as they are asked for."""
        self._frameworks = frameworks
        self._clients: dict[tuple[str, int], Client] = {}
        self._broken: dict[str, str] = {}
        self.versions: dict[str, dict[str, str]] = {}

    def for_case(self, case: Case) -> dict[str, Client | str]:
        """Return each framework's worker, or the reason why it has none."""
        clients: dict[str, Client | str] = {}
        for framework in self._frameworks:
            clients[framework] = self._client(framework, case.devices)
        return clients

    def _client(self, framework: str, devices: int) -> Client | str:
        if framework in self._broken:
            return self._broken[framework]
        key = framework, devices
        if key not in self._clients:
            try:
                client = Client(framework, environments.find_python(framework), devices)
                self.versions[framework] = client.ask("hello", timeout=PATIENCE_S)
            except (environments.EnvironmentFailure, WorkerError) as error:
                self._broken[framework] = str(error)
                return str(error)
            self._clients[key] = client
        return self._clients[key]

    def close(self) -> None:
        """End every worker."""
        for client in self._clients.values():
            client.close()


def _names(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return parse


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--show", type=Path, metavar="FILE", help="show a saved run and exit")
    parser.add_argument(
        "--cases", type=_names(list(CASES)), default=list(CASES), help="comma-separated names"
    )
    parser.add_argument(
        "--frameworks",
        type=_names(ALL),
        default=list(ALL),
        help=f"comma-separated, of {', '.join(ALL)}",
    )
    parser.add_argument("--rounds", type=int, help="timed rounds for each case")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="go on with a run that was saved in part"
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds, one compilation")
    return parser.parse_args(argv)


def _list() -> None:
    width = max(map(len, CASES))
    for case in CASES.values():
        print(f"{case.name:{width}}  {case.title}; limit: {case.limit}")


def _progress(number: int, total: int, result: Result) -> None:
    parts = [f"[{number}/{total}] {result.case.name}:"]
    if result.wrong is not None:
        parts.append(f"WRONG: {result.wrong}")
    else:
        for framework, outcome in result.outcomes.items():
            if outcome.unavailable is not None:
                parts.append(f"{framework} n/a")
            elif outcome.run is not None:
                parts.append(f"{framework} {report.format_duration(outcome.run)}")
    print(*parts, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the command line asks for; return 1 if a value was wrong or Bellhop raised."""
    arguments = _arguments(argv)
    if arguments.list:
        _list()
        return 0
    if arguments.show:
        report.show(records.load(arguments.show).results, ALL)
        return 0
    settings = QUICK if arguments.quick else FULL
    if arguments.rounds is not None:
        settings = replace(settings, rounds=arguments.rounds)
    results: list[Result] = []
    versions: dict[str, dict[str, str]] = {}
    if arguments.resume:
        before = records.load(arguments.resume)
        results, versions = before.results, before.versions
    done = {result.case.name for result in results}
    with closing(Clients([LIMIT, *arguments.frameworks])) as clients:
        for number, name in enumerate(arguments.cases, 1):
            if name in done:
                continue
            case = CASES[name]
            results.append(Measurement(case, clients.for_case(case), settings).measure())
            _progress(number, len(arguments.cases), results[-1])
            versions |= clients.versions
            # What is interrupted can be resumed.
            records.save(results, versions, settings, complete=False)
    report.show(results, arguments.frameworks)
    measured = {result.case.name: result.outcomes.keys() for result in results}
    complete = all({*case.builders} <= {*measured.get(case.name, ())} for case in CASES.values())
    print(f"\nSaved as {records.save(results, versions, settings, complete)}")
    return int(any(_failed(result) for result in results))


def _failed(result: Result) -> bool:
    """Return whether a value is wrong or Bellhop, which has a program for each case, raised.

    A peer that raises, or takes too long, has a note below the tables in place of a time.
    """
    own = result.outcomes.get(report.BASE)
    return result.wrong is not None or (own is not None and own.unavailable is not None)


if __name__ == "__main__":
    sys.exit(main())
