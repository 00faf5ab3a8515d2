#!/usr/bin/env bash
# Unpacks the newest QEMU of Debian's backports beside the installed one, which it may not replace.
#
#   tests/lab/qemu-next.sh [OUT]          OUT is target/lab/qemu-next where it is not given
#
# Prints OUT/bin: put it first on PATH. It holds qemu-system-x86_64 and qemu-img as scripts that run the
# unpacked programs with their own libraries and firmware. A second run does nothing; FORCE=1 does it anew.
set -euo pipefail
export LC_ALL=C
HERE=$(dirname "$(readlink -f "$0")")
OUT=$(readlink -m "${1:-$HERE/../../target/lab/qemu-next}")

log() { printf 'qemu-next: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }

if [ "${FORCE:-0}" != 1 ] && [ -x "$OUT/bin/qemu-system-x86_64" ] && [ -e "$OUT/.done" ]; then
  echo "$OUT/bin"; exit 0
fi
command -v apt-get >/dev/null || die "no apt here: this needs Debian or a relative of it"
. /etc/os-release
SUITE=${QEMU_NEXT_SUITE:-${VERSION_CODENAME:-bookworm}-backports}

# The mirror and keyring that this machine uses already; nothing of its own apt is written.
SOURCES=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true)
MIRROR=$(grep -oE 'https?://[^ ]+/debian/?( |$)' <<<"$SOURCES" | head -1 | tr -d ' ' || true)
[ -n "$MIRROR" ] || die "no mirror of Debian among the sources of apt"
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
W=$(mktemp -d "${TMPDIR:-/tmp}/qemu-next.XXXXXX")
trap 'rm -rf "$W"' EXIT
mkdir -p "$W"/{lists/partial,cache/archives/partial,debs}
{
  echo "deb [signed-by=$KEYRING] $MIRROR $SUITE main"
  echo "deb [signed-by=$KEYRING] $MIRROR ${SUITE%-backports} main"
} >"$W/sources.list"
apt=(-qq -o "Dir::Etc::SourceList=$W/sources.list" -o "Dir::Etc::SourceParts=/dev/null"
  -o "Dir::State::Lists=$W/lists" -o "Dir::Cache=$W/cache" -o APT::Sandbox::User=root
  -o Acquire::Languages=none)
apt-get "${apt[@]}" update >&2

# What it needs and this machine lacks, found by what the loader misses: no dependency is installed.
fetch() { (cd "$W/debs" && apt-get "${apt[@]}" -t "$SUITE" download "$@" >&2); }
unpack() { local deb; for deb in "$W"/debs/*.deb; do dpkg -x "$deb" "$W/root"; rm "$deb"; done; }
mkdir -p "$W/root"
fetch qemu-system-x86 qemu-system-common qemu-system-data qemu-utils seabios ipxe-qemu
unpack
LIBS=/usr/lib/x86_64-linux-gnu
missing() {
  LD_LIBRARY_PATH=$W/root$LIBS ldd "$W/root/usr/bin/qemu-system-x86_64" "$W/root/usr/bin/qemu-img" |
    awk '/not found/{print $1}' | sort -u
}
for _ in 1 2 3 4; do
  lost=$(missing)
  [ -n "$lost" ] || break
  wanted=()
  for package in $(apt-cache "${apt[@]}" depends --no-recommends --no-suggests qemu-system-x86 qemu-system-common qemu-utils |
    awk '/Depends: /{print $NF}' | grep '^lib' | sort -u); do
    dpkg -s "$package" >/dev/null 2>&1 || wanted+=("$package")
  done
  [ ${#wanted[@]} -gt 0 ] || die "missing libraries: $lost"
  fetch "${wanted[@]}"
  unpack
done
[ -z "$(missing)" ] || die "missing libraries: $(missing)"

rm -rf "$OUT"
mkdir -p "$OUT/bin"
mv "$W/root" "$OUT/root"
R=$OUT/root
# Absolute links of the packages point into this machine's own file system.
find "$R/usr/share" -type l -lname '/*' | while read -r link; do
  to=$R$(readlink "$link"); [ -e "$to" ] && ln -sfn "$to" "$link"
done
for program in qemu-system-x86_64 qemu-img; do
  data=()
  [ $program = qemu-img ] || data=(-L "$R/usr/share/qemu" -L "$R/usr/share/seabios" -L "$R/usr/lib/ipxe/qemu")
  cat >"$OUT/bin/$program" <<WRAP
#!/bin/sh
export LD_LIBRARY_PATH='$R$LIBS' QEMU_MODULE_DIR='$R$LIBS/qemu'
exec '$R/usr/bin/$program' ${data[*]} "\$@"
WRAP
  chmod 755 "$OUT/bin/$program"
done
"$OUT/bin/qemu-system-x86_64" --version | head -1 >&2
"$OUT/bin/qemu-img" --version | head -1 >&2
touch "$OUT/.done"
echo "$OUT/bin"
