#!/usr/bin/env bash
# Tests a wheel in a fresh minimal Debian 12 in the same way as a new user: pip install, five lines of Python, and a
# picture in a file.
#   scripts/fresh_wheel.sh [WHEEL]     default: the newest wheel of the machine's Python in build/wheels (scripts/wheel.sh)
# Needs root and debootstrap. The wheel must fit the Python of Debian 12, which is 3.11.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wheel=${1:-$(ls -t build/wheels/*cp311-cp311*.whl | head -n 1)}
wheel=$(realpath "$wheel")

trial='
  apt-get update -q >/dev/null
  apt-get install -q -y --no-install-recommends python3 python3-venv ca-certificates >/dev/null
  python3 -m venv /tmp/try
  begin=$(date +%s%N)
  /tmp/try/bin/pip install --quiet --disable-pip-version-check "$1"
  cd /tmp
  cat >five.py <<LINES
import penstock_sim as ps
result = ps.simulate(schedule="zb-h1", pp_size=4, num_microbatches=8)
print(result.makespan, result.bubble, result.ranks()[0]["busy_ns"])
open("timeline.svg", "w").write(result.svg())
open("timeline.html", "w").write(result.to_html())
LINES
  /tmp/try/bin/python five.py
  echo "from pip install to the picture: $((($(date +%s%N) - begin) / 1000000)) ms"
  grep -q "^<svg" timeline.svg
  grep -q "<html" timeline.html
  /tmp/try/bin/penstock show --schedule 1f1b --pp-size 4 --num-microbatches 8
  # A function that needs another package must say so.
  ! /tmp/try/bin/python -c "import penstock_sim as ps; ps.simulate(schedule=\"1f1b\", pp_size=2, num_microbatches=2).timeline()" 2>error
  grep -q pandas error
  /tmp/try/bin/pip uninstall --quiet --yes penstock-sim
  ! test -e /tmp/try/bin/penstock
  echo "the wheel was installed, used and removed"'
PENSTOCK_FRESH_BIND=$(dirname "$wheel") exec scripts/fresh_machine.sh bash -euo pipefail -c "$trial" wheel "$wheel"
