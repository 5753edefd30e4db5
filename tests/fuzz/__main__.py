"""``make fuzz``: draws programs for some minutes, and writes down those that fail."""

import argparse
import contextlib
import os
import re
import secrets
import time
from pathlib import Path

from .against import judge_against
from .child import WORKER, Child
from .search import Failure, Search


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, help="the first seed; without, one is drawn")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="for what fails")
    parser.add_argument("--x64", choices=("on", "off"), default="on", help="64-bit types")
    parser.add_argument(
        "--against", help="the Python of another installation, which runs programs too"
    )
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    options.out.mkdir(parents=True, exist_ok=True)
    failures = 0
    os.environ["JAX_ENABLE_X64"] = str(int(options.x64 == "on"))
    # What references compile, one operation after another, is mostly the same.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(options.out.absolute() / "cache")
    with contextlib.ExitStack() as stack:
        judge = stack.enter_context(Child(options.out / "stderr.txt")).judge
        if options.against:
            command = (options.against, *WORKER[1:], "--alone")
            other = stack.enter_context(Child(options.out / "stderr-other.txt", command))
            judge = judge_against(judge, other.judge)
        search = Search(judge, time.monotonic() + 60 * options.minutes)
        while time.monotonic() < search.deadline:
            failure = search.batch(seed)
            print(f"seed {seed}: {sum(search.counts.values())} programs so far", flush=True)
            if failure is not None:
                failures += 1
                print(written(failure, seed, options.out), flush=True)
            seed += 1
    for kind, count in search.counts.most_common():
        print(f"{count:6} {kind}")
    for mode, count in search.modes.most_common():
        print(f"{count:6} programs: {mode}")
    for reason, count in search.refused.most_common():
        print(f"{count:6} calls refused: {reason}")
    return bool(failures)


def written(failure: Failure, seed: int, folder: Path) -> str:
    """Write a script that fails; return where, and why."""
    kind, details = failure.verdict.kind, failure.verdict.details
    path = folder / f"{seed}-{re.sub('[^A-Za-z]+', '-', kind)}.py"
    comment = "".join(f"# {line}".rstrip() + "\n" for line in [kind, *details.splitlines()])
    path.write_text(f"{failure.source}\n{comment}")
    return f"{kind}: {path}\n{details}"


if __name__ == "__main__":
    raise SystemExit(main())
