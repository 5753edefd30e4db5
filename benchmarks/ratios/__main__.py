"""Measure the ratios of `qjit` to `jax.jit`, of which the worst stands at the top.

python -m benchmarks.ratios run-times           # sixty kinds of classical code
python -m benchmarks.ratios first-calls         # twenty programs
python -m benchmarks.ratios generators          # of XLA on jax 0.10
python -m benchmarks.ratios run-times --only tanh,softmax --rounds 30
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime

import jax

from benchmarks import records

RESULTS = records.RESULTS / "ratios"


def main() -> int:
    """Measure, print and save; return 1 where a ratio is above its goal."""
    jax.config.update("jax_enable_x64", True)
    from benchmarks.ratios import first_calls, generators, run_times
    from benchmarks.ratios.kinds import KINDS
    from benchmarks.ratios.programs import PROGRAMS

    measures = {
        "run-times": (run_times.measure, KINDS, 40),
        "first-calls": (first_calls.measure, PROGRAMS, 3),
        "generators": (generators.measure, KINDS, 40),
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ratios", description=__doc__)
    parser.add_argument("what", choices=measures)
    parser.add_argument("--only", help="comma-separated names of kinds or programs")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--save", action="store_true", help="in benchmarks/results/ratios")
    args = parser.parse_args()
    measure, known, rounds = measures[args.what]
    names = args.only.split(",") if args.only else list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}")
    rows = []
    for row in measure(names, args.rounds or rounds):
        rows.append(row)
        print(_line(row), file=sys.stderr, flush=True)
    rows.sort(key=lambda row: -row["ratio"])
    print(*map(_line, rows), sep="\n")
    if args.save:
        now = datetime.now()
        document = {"date": now.isoformat(timespec="seconds"), "machine": records.machine()}
        document |= {"load": os.getloadavg()[2], "jax": jax.__version__, "rows": rows}
        RESULTS.mkdir(exist_ok=True, parents=True)
        path = RESULTS / f"{now:%Y-%m-%d}-{records.machine()}-{args.what}-jax{jax.__version__}.json"
        path.write_text(json.dumps(document, indent=1) + "\n")
        print(path)
    return int(any(row["ratio"] > row["goal"] for row in rows if "goal" in row))


def _line(row: dict) -> str:
    goal = f"goal {row['goal']:.2f}" if "goal" in row else ""
    return f"{row['case']:48} {row['ratio']:6.2f}  {goal}  jax.jit {row['jax_s'] * 1e6:10.1f} us"


if __name__ == "__main__":
    sys.exit(main())
