#!/usr/bin/env bash
# Brings the Debian packages of tools/packages.txt onto this machine.   usage: tools/setup.sh run|test
# As root, or with sudo that asks for no password, it installs what is missing; otherwise it says what to install.
# A stamp in build/ (the list's checksum) makes a second call cost nothing. All messages go to standard error.
set -euo pipefail
cd "$(dirname "$0")/.."

section=${1:-run}
list=tools/packages.txt
stamp=build/.packages-$section

say() { printf '%s\n' "$*" >&2; }

# Packages of the given sections, one a line.
packages_of() {
  awk -v want=" $* " '/^#/ || NF == 0 { next }
    /^\[/ { gsub(/[][]/, ""); on = index(want, " " $0 " "); next }
    on { print $1 }' "$list"
}

missing_of() {
  local name
  for name in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s\n' "$name"
  done
}

has_candidate() { [ "$(apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { print $2 }')" != "" ] &&
  [ "$(apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { print $2 }')" != "(none)" ]; }

install_packages() {  # install_packages PREFIX... -- NAME...
  local prefix=()
  while [ "$1" != -- ]; do prefix+=("$1"); shift; done
  shift
  local apt=("${prefix[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y)
  local name updated=no
  for name in "$@"; do
    if ! has_candidate "$name"; then
      say "quern: apt does not know $name yet; updating its lists"
      "${apt[@]}" update >&2
      updated=yes
      break
    fi
  done
  if ! "${apt[@]}" install --no-install-recommends "$@" >&2; then
    [ "$updated" = no ] || return 1
    say "quern: the installation failed; updating apt's lists and trying once more"
    "${apt[@]}" update >&2
    "${apt[@]}" install --no-install-recommends "$@" >&2
  fi
}

checksum=$(cksum <"$list")
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$checksum" ]; then exit 0; fi

sections=(run)
[ "$section" = run ] || sections+=("$section")
mapfile -t wanted < <(packages_of "${sections[@]}")
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "quern: this is no Debian; going on without checking for these packages: ${wanted[*]}"
  exit 0
fi
mapfile -t missing < <(missing_of "${wanted[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then
    say "quern: installing ${missing[*]}"
    install_packages -- "${missing[@]}"
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    say "quern: installing with sudo: ${missing[*]}"
    install_packages sudo -n -- "${missing[@]}"
  else
    say "quern: these Debian packages are missing: ${missing[*]}"
    say "quern: install them with"
    say "    sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
    exit 1
  fi
fi
mkdir -p build
printf '%s\n' "$checksum" >"$stamp"
