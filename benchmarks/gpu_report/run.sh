#!/usr/bin/env bash
# Writes a report of what runs on this machine's GPU, within eight minutes:
#   bash run.sh OUTPUT [SLOWNESS [STEP...]]
# OUTPUT gets report.md, report.json and output.log.  SLOWNESS, a whole number, multiplies all time
# limits, for a trial on a slow machine.  STEPs by name (steps.py) leave out the others.  The machine's
# python3, or $PYTHON, needs jax; no network is used.
set -u
bundle=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && output=$(cd "$1" && pwd) || exit
slowness=${2:-1}
cd "$bundle" || exit
# The report keeps its own limit of 468 s.  `timeout` ends it should it fail to do so.
exec timeout --kill-after=4 $((474 * slowness)) \
  "${PYTHON:-python3}" -m benchmarks.gpu_report "$output" --slowness "$slowness" --only "${@:3}"
