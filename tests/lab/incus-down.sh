#!/bin/bash
# Stop the Incus test lab that incus-up.sh started. With --purge also remove its
# instances, images, networks, databases and client keys (packages stay).
set -uo pipefail
LAB_DIR=${LAB_DIR:-/var/lib/corral-lab/incus}
LAB_HOSTS=${LAB_HOSTS:-a b}
purge=0; [ "${1:-}" = --purge ] && purge=1
say() { printf '[incus-lab %3ds] %s\n' "$SECONDS" "$*"; }
host_dir() { echo "/var/lib/incus-$1"; }
as_host() { local h=$1; shift; env INCUS_DIR="$(host_dir "$h")" INCUS_CONF="$LAB_DIR/local" "$@"; }
[ "$(id -u)" = 0 ] || { echo 'incus-down: must run as root' >&2; exit 1; }
[ -d "$LAB_DIR" ] || { echo 'incus-down: no lab here'; exit 0; }
exec 9>"$LAB_DIR/lock"
flock -w 600 9 || { echo 'incus-down: another incus-up or incus-down is running' >&2; exit 1; }

for h in $LAB_HOSTS; do
  d=$(host_dir "$h")
  if pid=$(as_host "$h" timeout 10 incus query /1.0 2>/dev/null | grep -oE '"server_pid": [0-9]+' | grep -oE '[0-9]+$'); then
    for i in $(as_host "$h" incus list --all-projects -f csv -c ens 2>/dev/null | grep -E ',(RUNNING|FROZEN|ERROR)$'); do
      IFS=, read -r proj name _ <<<"$i"
      as_host "$h" timeout 60 incus stop --force --project "$proj" "$name" </dev/null >/dev/null 2>&1 || say "host $h: could not stop $name"
    done
    if [ $purge = 1 ]; then
      for i in $(as_host "$h" incus list --all-projects -f csv -c en 2>/dev/null); do
        as_host "$h" incus delete --force --project "${i%,*}" "${i#*,}" </dev/null >/dev/null 2>&1
      done
      br=$(as_host "$h" incus network list -f csv 2>/dev/null | awk -F, '$3 == "YES" { print $1 }')
      as_host "$h" incus profile device remove default eth0 >/dev/null 2>&1
      as_host "$h" incus profile delete vm >/dev/null 2>&1
      for n in $br; do as_host "$h" incus network delete "$n" >/dev/null 2>&1 || say "host $h: network $n stays"; done
    fi
    as_host "$h" timeout 90 incus admin shutdown --timeout 60 </dev/null >/dev/null 2>&1
    for _ in $(seq 100); do [ -d "/proc/$pid" ] || break; grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null && break; sleep 0.2; done
    say "host $h: stopped"
  fi
  if [ $purge = 1 ]; then
    # Anything the daemon left mounted goes first; rm must never follow into a mount.
    awk -v d="$d/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r | while read -r m; do umount -l "$m"; done
    if ! awk -v d="$d/" 'index($2, d) == 1 { f = 1 } END { exit !f }' /proc/mounts; then
      rm -rf --one-file-system "${d:?}"
    fi
  fi
  rm -f "$LAB_DIR/run/incusd-$h.pid"
done
for n in vhost-vsock kvm; do
  [ -e "$LAB_DIR/run/$n.ours" ] && rm -f "/dev/$n" "$LAB_DIR/run/$n.ours"
done
if [ -e "$LAB_DIR/run/lxcfs.ours" ] && [ -s "$LAB_DIR/run/lxcfs.pid" ]; then
  p=$(cat "$LAB_DIR/run/lxcfs.pid")
  [ "$(cat "/proc/$p/comm" 2>/dev/null)" = lxcfs ] && kill "$p"
  rm -f "$LAB_DIR/run/lxcfs.ours" "$LAB_DIR/run/lxcfs.pid"
fi
if [ $purge = 1 ]; then
  nft delete table inet incus 2>/dev/null
  rm -rf "${LAB_DIR:?}"
fi
say 'down'
exit 0
