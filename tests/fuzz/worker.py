"""The process in which scripts run: it reads them, and answers with verdicts in JSON.

With ``--alone`` it runs scripts without their references.
"""

import dataclasses
import json
import os
import sys


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    # What scripts and libraries print is no answer.
    os.dup2(2, 1)
    from .judge import judge, run_alone

    run = run_alone if "--alone" in sys.argv else judge

    for line in sys.stdin:
        print(json.dumps(dataclasses.asdict(run(json.loads(line)))), file=answers, flush=True)


if __name__ == "__main__":
    main()
