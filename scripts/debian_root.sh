# shellcheck shell=bash
# A function that makes a fresh minimal Debian 12 in a folder. fresh_machine.sh and fresh_container.sh source this file
# and define refuse(), which prints a message and ends the script.

# debian_root FOLDER: makes the system with debootstrap (variant minbase: no git, python3, curl or locales). It gets the
# mirror, the settings, the sources and the certificates of this machine's apt, and so reaches what this machine reaches.
debian_root() {
  local root=$1 suite=bookworm mirror settings proxy log
  # The mirror is the first one of the suite that apt on this machine uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$suite" '$2 == suite { print $1; exit }')
  [[ -n $mirror ]] || refuse "apt of this machine has no source of the suite $suite; run apt-get update on a Debian 12"
  settings=$(apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Retries|ForceIPv4|ForceIPv6|Check-Valid-Until)' || true)
  proxy=$(sed -n 's/^Acquire::https\{0,1\}::Proxy "\(.*\)";$/\1/p' <<<"$settings" | head -n 1)
  log=$(mktemp)
  # debootstrap reads no settings of apt, so a proxy reaches it by the variables of its downloader.
  http_proxy=${proxy:-${http_proxy:-}} https_proxy=${proxy:-${https_proxy:-}} \
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    rm -f "$log"
    refuse "debootstrap failed"
  }
  rm -f "$log"
  [[ -z $settings ]] || echo "$settings" >"$root/etc/apt/apt.conf.d/90-of-the-host"
  # This root does not outlive the script, so dpkg need not wait for the disk after each file.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"
  local file
  for file in /etc/apt/{sources.list,sources.list.d,trusted.gpg.d,auth.conf.d,preferences.d}; do
    if [[ -e $file ]]; then mkdir -p "$root$(dirname "$file")" && cp -aT "$file" "$root$file"; fi
  done
  for file in /etc/pip.conf /etc/resolv.conf /etc/hosts; do
    if [[ -e $file ]]; then cp -L "$file" "$root$file"; fi
  done
  if [[ -d /usr/local/share/ca-certificates ]]; then cp -a /usr/local/share/ca-certificates "$root/usr/local/share/"; fi
}
