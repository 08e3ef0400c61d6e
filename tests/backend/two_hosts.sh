#!/usr/bin/env bash
# Tests a backend of processes on two hosts, which are namespaces of this machine. Each has its own network, and a
# virtual cable (a veth pair) connects them. The clock of the second host is an hour ahead and counts from another
# boot.
#
#   two_hosts.sh PENSTOCK BACKEND
#
# The exit code is 77 if namespaces are not permitted.
set -euo pipefail

penstock=$1
backend=$2
apart=3600  # seconds
mine=10.77.31.1
other=10.77.31.2

as_root=()
[ "$(id -u)" = 0 ] || as_root=(--user --map-root-user)
if [ -z "${PENSTOCK_IN_NAMESPACE:-}" ]; then
  command -v ip >/dev/null || { echo "skipped: no ip(8)"; exit 77; }
  unshare "${as_root[@]}" --net --mount --time --fork --monotonic 1 true 2>/dev/null ||
    { echo "skipped: namespaces are not permitted here"; exit 77; }
  export PENSTOCK_IN_NAMESPACE=1
  exec unshare "${as_root[@]}" --net --mount --pid --fork --kill-child --mount-proc bash "$0" "$penstock" "$backend"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export PENSTOCK_SECRET=of-two-hosts-in-namespaces
export WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=$mine MASTER_PORT=29517
run=("$penstock" run --schedule 1f1b --pp-size 2 --num-microbatches 4 --backend "$backend" --time-scale 4)

ip link set lo up
ip link add cable type veth peer name far_end
ip address add $mine/24 dev cable
ip link set cable up

echo 11111111-2222-3333-4444-555555555555 >"$folder/boot_id"
cat >"$folder/other_host.sh" <<'HOST'
set -euo pipefail
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
until ip link show far_end >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip address add "$2/24" dev far_end
ip link set far_end up
shift 2
RANK=1 exec "$@"
HOST
unshare --net --mount --time --fork --monotonic $apart --boottime $apart \
  bash "$folder/other_host.sh" "$folder" $other "${run[@]}" >"$folder/rank1" 2>&1 &
host=$!
for _ in $(seq 100); do
  [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ] || break
  sleep 0.05
done
ip link set far_end netns $host

RANK=0 "${run[@]}" --json >"$folder/result.json" || { cat "$folder/rank1"; exit 1; }
wait $host || { echo "rank 1 failed:"; cat "$folder/rank1"; exit 1; }

number() { grep -o "\"$1\": [0-9]*" "$folder/result.json" | head -1 | grep -o '[0-9]*$'; }
error=$(number clock_error_ns)
makespan=$(number makespan_ns)
echo "makespan $makespan ns, clocks right to $error ns, $apart s apart"
[ "$error" -gt 0 ] && [ "$error" -lt 50000000 ]
[ "$makespan" -ge 15000000 ] && [ "$makespan" -lt 1000000000 ]
grep -q "the ranks run on several hosts" "$folder/result.json"
