"""Run all steps: ``python -m benchmarks.gpu_report OUTPUT``, which `run.sh` starts."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from datetime import datetime
from pathlib import Path

from benchmarks.gpu_report.report_file import Report
from benchmarks.gpu_report.steps import list_steps, run_steps

#: Seconds in all, of which `run.sh` and the start of Python need a few more.
SECONDS = 468


def main() -> int:
    """Write the report; return 0 if every step ran to its end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, help="the folder of the report")
    parser.add_argument("--slowness", type=int, default=1, help="multiplies all time limits")
    parser.add_argument("--only", nargs="*", help="the steps by name; all others are left out")
    options = parser.parse_args()
    # What ends this process lets it stop its children and say so in the report.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    options.output.mkdir(parents=True, exist_ok=True)
    began = datetime.now().isoformat(timespec="seconds")
    report = Report(options.output, began, options.slowness)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        site = Path(folder) / "site"
        # Beside what the caller has on its path, as the stand-in for a GPU.
        path = [str(site), str(Path.cwd()), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
        # Without the packages and the kind of the machine no step says much.
        wanted = {"installation", "machine", *(options.only or ())}
        steps = list_steps(Path.cwd(), site)
        if options.only:
            steps = [step for step in steps if step.name in wanted]
        run_steps(report, steps, SECONDS * options.slowness, Path(folder))
    print((options.output / "report.md").read_text().partition("\n## ")[0])
    return 0 if all(step.state in ("done", "skipped") for step in report.steps) else 1


if __name__ == "__main__":
    sys.exit(main())
