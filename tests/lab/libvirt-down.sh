#!/usr/bin/env bash
# Takes down what libvirt-up.sh DIR brought up: every domain of both daemons, their networks, the daemons.
# Touches nothing else. PURGE=1 also removes DIR.
set -uo pipefail
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
L=$(readlink -m "${1:-/tmp/corral-libvirt}")
uri() { printf 'qemu+unix:///system?socket=%s/%s/run/libvirt-sock' "$L" "$1"; }
daemon() { # its pid, where it is one of ours
    local pid
    pid=$(cat "$L/$1/run/libvirtd.pid" 2>/dev/null) || return 1
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in */libvirtd) echo "$pid" ;; *) return 1 ;; esac
}
for i in b a; do
    pid=$(daemon $i) || continue
    # One that was stopped by a test answers nobody.
    kill -CONT "$pid" 2>/dev/null
    for domain in $(timeout 20 virsh -q -c "$(uri $i)" list --uuid 2>/dev/null); do
        timeout 20 virsh -q -c "$(uri $i)" destroy "$domain" >/dev/null 2>&1
    done
done
for i in b a; do
    pid=$(daemon $i) || continue
    for net in $(timeout 20 virsh -q -c "$(uri $i)" net-list --name 2>/dev/null); do
        timeout 20 virsh -q -c "$(uri $i)" net-destroy "$net" >/dev/null 2>&1
    done
    kill "$pid" 2>/dev/null
    for _ in $(seq 100); do
        [ -d "/proc/$pid" ] || break
        sleep 0.1
    done
    [ -d "/proc/$pid" ] && kill -9 "$pid" 2>/dev/null
    rm -f "$L/$i"/run/libvirt-sock* "$L/$i/run/libvirtd.pid"
done
# libvirt leaves its (now empty) firewall chains behind; another libvirtd may be at work with them.
if ! ls -l /proc/[0-9]*/exe 2>/dev/null | grep '/libvirtd$\|/virtnetworkd$' >/dev/null; then
    for ipt in iptables ip6tables; do
        command -v $ipt >/dev/null || continue
        for tc in filter:INPUT:LIBVIRT_INP filter:OUTPUT:LIBVIRT_OUT filter:FORWARD:LIBVIRT_FWO \
            filter:FORWARD:LIBVIRT_FWI filter:FORWARD:LIBVIRT_FWX nat:POSTROUTING:LIBVIRT_PRT \
            mangle:POSTROUTING:LIBVIRT_PRT; do
            IFS=: read -r t b c <<<"$tc"
            $ipt -w -t "$t" -D "$b" -j "$c" 2>/dev/null
            $ipt -w -t "$t" -F "$c" 2>/dev/null
            $ipt -w -t "$t" -X "$c" 2>/dev/null
        done
    done
fi
[ "${PURGE:-0}" = 1 ] && rm -rf "$L"
exit 0
