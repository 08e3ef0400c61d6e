#!/usr/bin/env bash
# Builds the image of the Containerfile and runs it, without a registry:
#   scripts/fresh_container.sh
# The images debian:12 and debian:12-slim are a fresh minimal Debian 12 from this machine's mirror (debootstrap). buildah
# keeps all images in a temporary folder, which is removed at the end. The script needs root, debootstrap, buildah and crun.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/debian_root.sh

refuse() {
  echo "fresh_container.sh: $*" >&2
  exit 2
}
((EUID == 0)) || refuse "needs root for debootstrap; run it with sudo"
for tool in debootstrap buildah crun; do
  command -v "$tool" >/dev/null || refuse "needs $tool (Debian: apt-get install debootstrap buildah crun)"
done
# All mounts are made in a separate namespace, so that they are removed when this script ends for any reason.
if [[ ${PENSTOCK_FRESH_INSIDE:-} != yes ]]; then
  PENSTOCK_FRESH_INSIDE=yes exec unshare --mount --propagation private -- "${BASH_SOURCE[0]}" "$@"
fi
folder=$(mktemp -d -t penstock-container.XXXXXX)
trap 'rm -rf --one-file-system "$folder"' EXIT
images() { buildah --root "$folder/images" --runroot "$folder/run" --storage-driver vfs "$@"; }

echo "== a fresh Debian 12 as the images debian:12 and debian:12-slim"
debian_root "$folder/root"
base=$(images from scratch)
images add --quiet "$base" "$folder/root" / >/dev/null
images commit --quiet "$base" docker.io/library/debian:12 >/dev/null
images tag docker.io/library/debian:12 docker.io/library/debian:12-slim
rm -rf --one-file-system "$folder/root"

# A clean clone, so that the image holds what is committed.
git clone --quiet --no-hardlinks . "$folder/clone"
echo "== building the image ($SECONDS s)"
images build --isolation chroot --pull-never --tag penstock -f Containerfile --ignorefile "$folder/clone/.dockerignore" "$folder/clone"
echo "== running it ($SECONDS s)"
made=$(images from --pull-never penstock)
# `buildah run` takes no entry point; the image's own is tested by its name.
[[ $(images inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' penstock) == '[penstock]' ]] || refuse "the entry point is not penstock"
images run --isolation chroot "$made" -- penstock simulate --schedule 1f1b --pp-size 4 --num-microbatches 8
images run --isolation chroot "$made" -- sh -c 'test -s /srv/penstock/out/llama-70b-h100.html'
echo "the image was built, and penstock ran in it ($SECONDS s)"
