#!/usr/bin/env bash
# Runs COMMAND in a fresh minimal Debian 12, in a clean clone of HEAD, with an empty environment:
#   scripts/fresh_machine.sh COMMAND [ARGUMENT ...]
# debootstrap makes the system in a temporary folder (variant minbase: no git, python3, curl or locales), with
# this machine's mirror and apt settings. The folder is removed at the end, also after Ctrl-C. The script
# needs root and debootstrap. If the folder ../shared with reference data exists, the system sees it
# read-only.
#   PENSTOCK_FRESH_BIND=FOLDER:...  folders of this machine that the fresh one sees read-only, such as a CUDA toolkit
#   PENSTOCK_FRESH_OUT=FOLDER       gets a copy of the clone's folder out/, if the command has made it
# Exit code: the exit code of COMMAND, or 2 if the system cannot be made.
set -euo pipefail
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$checkout/scripts/debian_root.sh"

refuse() {
  echo "fresh_machine.sh: $*" >&2
  exit 2
}
(($# > 0)) || refuse "expected a command, such as scripts/fresh_machine.sh scripts/demo.sh"
((EUID == 0)) || refuse "needs root for chroot and debootstrap; run it with sudo"
command -v debootstrap >/dev/null || refuse "needs debootstrap (Debian: apt-get install debootstrap)"
# All mounts are made in a separate namespace, so that they are removed when this script ends for any reason.
if [[ ${PENSTOCK_FRESH_INSIDE:-} != yes ]]; then
  PENSTOCK_FRESH_INSIDE=yes exec unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$@"
fi

root=$(mktemp -d -t penstock-fresh.XXXXXX)
# The root must be a separate mount. Otherwise unshare(1), which tests call, cannot set the propagation of "/".
mount --bind "$root" "$root"
child=
clean_up() {
  trap '' INT TERM
  if [[ -n $child ]]; then kill -TERM -- "-$child" 2>/dev/null || true; fi
  # All mounts must be removed before any file is removed, because they give access to the folders of this machine.
  local place
  while read -r place; do umount -l "$place"; done < <(awk -v root="$root" 'index($2 "/", root "/") == 1 { print $2 }' /proc/self/mounts | sort -r)
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

echo "== a fresh Debian 12 in $root"
begin=$SECONDS
debian_root "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null || true
# show FOLDER PLACE: mounts the folder read-only at PLACE in the fresh machine.
show() { mkdir -p "$root$2" && mount --bind "$1" "$root$2" && mount -o remount,bind,ro "$root$2"; }
IFS=: read -r -a bound <<<"${PENSTOCK_FRESH_BIND:-}"
for folder in "${bound[@]}"; do
  [[ -d $folder ]] || refuse "PENSTOCK_FRESH_BIND: there is no folder $folder"
  real=$(realpath "$folder")
  show "$real" "$real"
  mkdir -p "$(dirname "$root$folder")"
  [[ $real == "$folder" ]] || ln -sfn "$real" "$root$folder"
done
if [[ -d $checkout/../shared ]]; then show "$(realpath "$checkout/../shared")" /srv/shared; fi
git -c safe.directory="$checkout" clone --quiet --no-hardlinks "file://$checkout" "$root/srv/penstock"
echo "== made in $((SECONDS - begin)) s; running: $*"

# The command runs in a session of its own. An interrupt ends all of its processes, and it has no access to the
# terminal of this machine.
setsid --wait env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" /bin/sh -c 'cd /srv/penstock && exec "$@"' sh "$@" </dev/null &
child=$!
status=0
wait "$child" || status=$?
child=
if [[ -n ${PENSTOCK_FRESH_OUT:-} && -d $root/srv/penstock/out ]]; then
  mkdir -p "$PENSTOCK_FRESH_OUT" && cp -a "$root/srv/penstock/out/." "$PENSTOCK_FRESH_OUT/"
fi
echo "== ended with $status after $((SECONDS - begin)) s"
exit "$status"
