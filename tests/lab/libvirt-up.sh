#!/usr/bin/env bash
# Brings up two libvirtd, "a" and "b", on this one machine, by hand and without systemd, for the tests:
# both as root with the QEMU driver (TCG), so that all of it, live migration included, can be tried.
#
#   tests/lab/libvirt-up.sh [DIR]         DIR is /tmp/corral-libvirt where it is not given; it must be short
#                                         (paths of sockets are limited)
#
# Prints what tests need as shell assignments, also in DIR/libvirt.env. libvirt-down.sh DIR takes it down.
# Can be run again at any time. CI=1 installs what is missing (Debian packages).
#
# Each has its own mount and UTS namespace with private /etc/libvirt, /var/lib/libvirt, /var/cache/libvirt,
# /var/log/libvirt and /run/libvirt, its own host UUID and its own host name (lab-a, lab-b): libvirt refuses to
# migrate to a host whose UUID or name is its own. Both listen on unix sockets, a and b also on loopback TCP
# where LAB_TCP_A and LAB_TCP_B name ports (whoever reaches them is root: only for tests of that).
set -euo pipefail
export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
L=$(readlink -m "${1:-/tmp/corral-libvirt}")
IMAGES=$L/images
TCP_A=${LAB_TCP_A-} TCP_B=${LAB_TCP_B-}
NET=${LAB_NET:-192.168.127}
BRIDGE=${LAB_BRIDGE:-corlabbr0}
log() { printf 'libvirt-up: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }
[ "$(id -u)" = 0 ] || die "run as root"

# ---- packages --------------------------------------------------------------------------------------
there() {
    local tool
    for tool in libvirtd virsh qemu-system-x86_64 qemu-img dnsmasq iptables ip unshare; do
        command -v "$tool" >/dev/null || return 1
    done
}
if ! there; then
    [ "${CI:-0}" = 1 ] || die "packages are missing: apt-get install libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients qemu-system-x86 qemu-utils dnsmasq-base iptables"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=900 update -qq >&2 || true
    # qemu-utils of backports cannot stand beside stable's qemu-system-x86: it goes back to that version.
    qemu=$(apt-cache policy qemu-system-x86 | awk '/Candidate:/{print $2}')
    apt-get -o DPkg::Lock::Timeout=900 -y -qq --no-install-recommends --allow-downgrades install qemu-system-x86 \
        "qemu-utils=$qemu" libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients dnsmasq-base iptables iproute2 \
        util-linux >&2
fi

uri() { printf 'qemu+unix:///system?socket=%s/%s/run/libvirt-sock' "$L" "$1"; }
v() {
    local i=$1
    shift
    virsh -q -c "$(uri "$i")" "$@"
}
answers() { v "$1" version >/dev/null 2>&1; }

# ---- one daemon ------------------------------------------------------------------------------------
up() { # name, host uuid, TCP port or nothing, first VNC port, first migration port
    local i=$1 uuid=$2 tcp=$3 vnc=$4 mig=$5 d=$L/$1
    if answers "$i"; then
        log "$i is up already"
        return
    fi
    mkdir -p "$d"/{etc/qemu/networks,lib,cache,log,run} "$IMAGES"
    mkdir -p /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/libvirt
    rm -f "$d"/run/*.pid "$d"/run/libvirt-*sock*
    cat >"$d/etc/libvirtd.conf" <<X
listen_tls = 0
listen_tcp = $([ -n "$tcp" ] && echo 1 || echo 0)
listen_addr = "127.0.0.1"
tcp_port = "${tcp:-16509}"
auth_tcp = "none"
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
unix_sock_ro_perms = "0700"
host_uuid = "$uuid"
log_outputs = "2:file:/var/log/libvirt/libvirtd.log"
max_clients = 200
X
    # No virtlogd, no dbus, no cgroups, no security driver: nothing that needs systemd.
    cat >"$d/etc/qemu.conf" <<X
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
security_default_confined = 0
namespaces = [ ]
cgroup_controllers = [ ]
stdio_handler = "file"
clear_emulator_capabilities = 0
vnc_listen = "127.0.0.1"
spice_listen = "127.0.0.1"
remote_display_port_min = $vnc
remote_display_port_max = $((vnc + 99))
migration_port_min = $mig
migration_port_max = $((mig + 99))
X
    : >"$d/etc/network.conf"
    cat >"$d/start" <<X
#!/bin/sh
set -e
mount --make-rprivate /
for p in etc:/etc/libvirt lib:/var/lib/libvirt cache:/var/cache/libvirt log:/var/log/libvirt run:/run/libvirt; do
    mount --bind "$d/\${p%%:*}" "\${p#*:}"
done
hostname lab-$i
# The QEMU driver looks up its built-in user before it reads qemu.conf; seen by this daemon only.
for f in passwd group; do
    cp /etc/\$f "$d/\$f"
    grep -q ^libvirt-qemu: "$d/\$f" || case \$f in
        passwd) echo 'libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin' >>"$d/passwd" ;;
        group) echo 'libvirt-qemu:x:64055:' >>"$d/group" ;;
    esac
    mount --bind "$d/\$f" /etc/\$f
done
exec libvirtd $([ -n "$tcp" ] && echo --listen) --pid-file "$d/run/libvirtd.pid"
X
    chmod 755 "$d/start"
    setsid unshare --mount --uts --propagation private sh "$d/start" </dev/null >>"$d/log/start.log" 2>&1 &
    local n=0 pid=$!
    until answers "$i"; do
        n=$((n + 1))
        if [ $n -ge 240 ] || ! kill -0 $pid 2>/dev/null; then
            tail -n 20 "$d/log/start.log" "$d/log/libvirtd.log" >&2
            die "$i does not answer"
        fi
        sleep 0.25
    done
    log "$i is up (pid $(cat "$d/run/libvirtd.pid"))"
}
up a c0aa1000-0000-4000-8000-00000000000a "$TCP_A" 5930 49400
up b c0aa1000-0000-4000-8000-00000000000b "$TCP_B" 6030 49500

# ---- network: a owns bridge and DHCP server; b's "default" is the same bridge --------------------------
net_a() { # forward element
    cat <<X
<network><name>default</name><uuid>c0aa1000-0000-4000-8000-0000000000f0</uuid>$1
<bridge name='$BRIDGE' stp='off' delay='0'/><mac address='52:54:00:1a:b1:00'/>
<ip address='$NET.1' netmask='255.255.255.0'><dhcp><range start='$NET.2' end='$NET.199'/></dhcp></ip></network>
X
}
MODE=none
active() { v "$1" net-info default 2>/dev/null | grep '^Active: *yes' >/dev/null; }
if active a; then
    if v a net-dumpxml default | grep "mode='nat'" >/dev/null; then MODE=nat; else MODE=isolated; fi
else
    for m in nat isolated; do
        v a net-undefine default >/dev/null 2>&1 || true
        net_a "$([ $m = nat ] && echo "<forward mode='nat'/>" || true)" >"$L/net.xml"
        v a net-define "$L/net.xml" >/dev/null
        if v a net-start default >/dev/null 2>"$L/net.err"; then
            MODE=$m
            break
        fi
        log "network mode $m: $(head -c 300 "$L/net.err")"
    done
fi
if [ $MODE != none ] && ! active b; then
    v b net-undefine default >/dev/null 2>&1 || true
    echo "<network><name>default</name><uuid>c0aa1000-0000-4000-8000-0000000000f1</uuid><forward mode='bridge'/><bridge name='$BRIDGE'/></network>" >"$L/net.xml"
    v b net-define "$L/net.xml" >/dev/null
    v b net-start default >/dev/null
fi

# ---- pools: "default" is one folder for both, as shared storage is; "second" is each one's own -------------
for i in a b; do
    mkdir -p "$L/$i-second"
    for pool in "default $IMAGES" "second $L/$i-second"; do
        read -r name target <<<"$pool"
        v "$i" pool-info "$name" >/dev/null 2>&1 || v "$i" pool-define-as "$name" dir --target "$target" >/dev/null
        v "$i" pool-info "$name" | grep 'State: *running' >/dev/null || v "$i" pool-start "$name" >/dev/null
    done
done

{
    echo "LAB_LIBVIRT_DIR='$L'"
    echo "LAB_LIBVIRT_A='$(uri a)'"
    echo "LAB_LIBVIRT_B='$(uri b)'"
    [ -z "$TCP_A" ] || echo "LAB_LIBVIRT_A_TCP='qemu+tcp://127.0.0.1:$TCP_A/system'"
    [ -z "$TCP_B" ] || echo "LAB_LIBVIRT_B_TCP='qemu+tcp://127.0.0.1:$TCP_B/system'"
    echo "LAB_LIBVIRT_NETWORK='$MODE'"
    echo "LAB_LIBVIRT_POOL='$IMAGES'"
} | tee "$L/libvirt.env"
