#!/bin/bash
# Bring up the Incus test lab: two independent Incus daemons on this machine.
#
#   host a   INCUS_DIR=/var/lib/incus-a   https://127.0.0.1:8443  corralbr0 10.77.0.1/24
#   host b   INCUS_DIR=/var/lib/incus-b   https://127.0.0.1:8444  corralbr1 10.77.1.1/24
#
# Neither is where an Incus of the machine itself would be: what finds that one finds nothing here.
# Each has the "dir" storage pools "default" and "second", a bridge with DHCP and one without addresses
# ("corralnet0"), the image "corral-tiny" (busybox and dropbear) and trusts the lab's client certificate. Idempotent:
# what is installed or running already is left as it is. Needs root on Debian 12
# and works without systemd as PID 1. incus-down.sh is the counterpart.
#
# Settings (environment): LAB_DIR (/var/lib/corral-lab/incus), LAB_HOSTS ("a b"),
# LAB_VM=1 also makes virtual machines possible: QEMU with software emulation, the
# image "corral-tiny-vm" and the profile "vm" on every host. Such machines have no
# vsock device, so the guest agent (exec, files) is not available in them.
set -euo pipefail

LAB_DIR=${LAB_DIR:-/var/lib/corral-lab/incus}
LAB_HOSTS=${LAB_HOSTS:-a b}
LAB_VM=${LAB_VM:-0}
INCUSD=/usr/libexec/incus/incusd
CLEAN_PATH=/usr/libexec/incus:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

say() { printf '[incus-lab %3ds] %s\n' "$SECONDS" "$*"; }
die() { printf 'incus-up: %s\n' "$*" >&2; exit 1; }

host_dir() { echo "/var/lib/incus-$1"; }
host_log() { echo "/var/lib/incus-$1/incus.log"; }
host_num() { printf '%d' $(($(printf '%d' "'$1") - 97)); }
host_port() { echo $((8443 + $(host_num "$1"))); }
host_bridge() { echo "corralbr$(host_num "$1")"; }
host_net() { echo "10.77.$(host_num "$1")"; }
as_host() { local h=$1; shift; env INCUS_DIR="$(host_dir "$h")" INCUS_CONF="$LAB_DIR/local" "$@"; }

[ "$(id -u)" = 0 ] || die 'must run as root'
mkdir -p "$LAB_DIR" "$LAB_DIR/local" "$LAB_DIR/run"
chmod 700 "$LAB_DIR"
exec 9>"$LAB_DIR/lock"
flock -w 600 9 || die 'another incus-up or incus-down is running'

# --- packages -------------------------------------------------------------
want='incus-base incus-client dnsmasq-base busybox-static dropbear-bin nftables openssh-client'
[ "$LAB_VM" = 0 ] || want="$want incus-agent qemu-system-x86 qemu-utils ovmf genisoimage systemd-boot-efi mtools dosfstools cpio binutils"
need=()
for p in $want; do
  dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^ii' || need+=("$p")
done
if [ ${#need[@]} -gt 0 ]; then
  say "installing: ${need[*]}"
  . /etc/os-release
  src=/etc/apt/sources.list.d/corral-lab-backports.sources
  if [ ! -e "$src" ]; then
    # The Debian mirror that this machine already uses.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' | sed -n '/\/debian\/$/p' | sort -u | tail -n 1) ; [ -n "$mirror" ] || die 'no Debian mirror in the apt sources'
    printf '%s\n' 'Types: deb' "URIs: $mirror" \
      "Suites: ${VERSION_CODENAME:-bookworm}-backports" 'Components: main' \
      'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' >"$src"
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=900 -q update >"$LAB_DIR/apt.log" 2>&1 || say 'apt-get update reported errors; going on'
  # Only the incus packages come from backports; the rest from the release.
  bpo=(); rel=()
  for p in "${need[@]}"; do case $p in incus-*) bpo+=("$p/$VERSION_CODENAME-backports") ;; *) rel+=("$p") ;; esac; done
  [ ${#bpo[@]} = 0 ] || bpo+=("libcowsql0/$VERSION_CODENAME-backports" "libraft0/$VERSION_CODENAME-backports")
  apt-get -o DPkg::Lock::Timeout=900 -q -y --no-install-recommends install \
    "${bpo[@]}" "${rel[@]}" >>"$LAB_DIR/apt.log" 2>&1 ||
    { tail -20 "$LAB_DIR/apt.log" >&2; die 'package installation failed'; }
fi
[ -x "$INCUSD" ] || die "$INCUSD is missing"
say "incus $($INCUSD --version)"

# Unprivileged containers need a subordinate id range for root.
for f in /etc/subuid /etc/subgid; do
  grep -q '^root:' "$f" 2>/dev/null || echo 'root:1000000:1000000000' >>"$f"
done
[ -e /sys/fs/cgroup ] || die 'no cgroup file system is mounted'

# --- lxcfs: per-container /proc/meminfo and friends -------------------------
if ! grep -q ' /var/lib/lxcfs ' /proc/mounts && [ -x /usr/bin/lxcfs ]; then
  mkdir -p /var/lib/lxcfs
  env -i PATH="$CLEAN_PATH" setsid lxcfs -p "$LAB_DIR/run/lxcfs.pid" /var/lib/lxcfs \
    </dev/null >"$LAB_DIR/lxcfs.log" 2>&1 9>&- &
  for _ in $(seq 50); do grep -q ' /var/lib/lxcfs ' /proc/mounts && break; sleep 0.1; done
  grep -q ' /var/lib/lxcfs ' /proc/mounts && : >"$LAB_DIR/run/lxcfs.ours" || say 'lxcfs did not start; going on without'
fi

# --- client key for ssh into instances ----------------------------------------
[ -e "$LAB_DIR/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C corral-lab -f "$LAB_DIR/id_ed25519"

# --- the image -----------------------------------------------------------------
build_image() {
  local w=$LAB_DIR/image r a l t
  rm -rf "$w"; mkdir -p "$w/templates"; r=$w/rootfs
  mkdir -p "$r"/{bin,sbin,usr/bin,usr/sbin,lib,lib64,etc,proc,sys,dev,tmp,run,root/.ssh,var/log,mnt,home/corral}
  chmod 1777 "$r/tmp"; chmod 700 "$r/root" "$r/root/.ssh"; ln -s ../run "$r/var/run"
  cp /bin/busybox "$r/bin/busybox"
  while read -r a; do
    case $a in
      busybox | init) ;;
      halt | reboot | poweroff | udhcpc | ifconfig | ip | route | getty | sulogin | switch_root) ln -s /bin/busybox "$r/sbin/$a" ;;
      *) ln -s busybox "$r/bin/$a" ;;
    esac
  done < <(/bin/busybox --list)
  for t in /usr/sbin/dropbear /usr/bin/dropbearkey /usr/bin/dbclient; do
    install -m 755 "$t" "$r$t"
    for l in $(ldd "$t" | grep -oE '/[^ ]+'); do [ -e "$r$l" ] || install -D -m 755 "$l" "$r$l"; done
  done
  mkdir -p "$r/etc/dropbear"
  cp "$LAB_DIR/id_ed25519.pub" "$r/root/.ssh/authorized_keys"; chmod 600 "$r/root/.ssh/authorized_keys"
  cat >"$r/sbin/init" <<'E'
#!/bin/sh
# PID 1: start the services, keep them up, leave at once when told to.
export PATH=/sbin:/bin:/usr/sbin:/usr/bin HOME=/root TERM=linux
down() { trap '' PWR TERM INT USR1 USR2; kill -TERM -1 2>/dev/null; sync; $1 -f; exit 0; }
trap 'down poweroff' PWR USR1 USR2
trap 'down reboot' INT TERM
[ -e /proc/self ] || mount -t proc proc /proc
[ -e /sys/class ] || mount -t sysfs sysfs /sys
hostname -F /etc/hostname 2>/dev/null
ip link set lo up
keep() { while :; do "$@"; sleep 1; done; }
nic() {
  ip link set "$1" up
  exec udhcpc -f -R -i "$1" -s /etc/udhcpc.script -t 30 -T 1 -A 2 -S -x hostname:"$(hostname)" >/dev/null 2>&1
}
# New network cards may be added while running: look for them every second.
( seen=' '
  while :; do
    for n in /sys/class/net/e*; do
      i=${n##*/}
      if [ -e "$n" ]; then case $seen in *" $i "*) ;; *) seen="$seen$i "; nic "$i" & ;; esac; fi
    done
    for i in $seen; do [ -e "/sys/class/net/$i" ] || seen=" $(echo $seen | sed "s/\b$i\b//") "; done
    sleep 1
  done ) &
keep /usr/sbin/dropbear -F -R -E -p 22 >/dev/null 2>&1 &
keep setsid -c sh -l </dev/console >/dev/console 2>&1 &
cut -d' ' -f1 /proc/uptime >/run/booted
while :; do sleep 3600 & wait $!; done
E
  cat >"$r/etc/udhcpc.script" <<'E'
#!/bin/sh
case $1 in
  deconfig) ip -4 addr flush dev "$interface" ;;
  bound | renew)
    ip -4 addr flush dev "$interface"
    ip addr add "$ip/${mask:-24}" dev "$interface"
    [ "$interface" = eth0 ] || exit 0
    [ -n "$router" ] && ip route replace default via "${router%% *}" dev "$interface"
    { [ -n "$domain" ] && echo "search $domain"; for d in $dns; do echo "nameserver $d"; done; } >/etc/resolv.conf ;;
esac
E
  chmod 755 "$r/sbin/init" "$r/etc/udhcpc.script"
  printf 'root::0:0:root:/root:/bin/sh\ncorral:x:1000:1000:corral:/home/corral:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$r/etc/passwd"
  printf 'root:x:0:\ntty:x:5:\ncorral:x:1000:\nnogroup:x:65534:\n' >"$r/etc/group"
  printf 'root:*:19000::::::\ncorral:*:19000::::::\n' >"$r/etc/shadow"; chmod 600 "$r/etc/shadow"
  sed -i 's/^root::/root:x:/' "$r/etc/passwd"
  chown 1000:1000 "$r/home/corral"
  echo /bin/sh >"$r/etc/shells"; echo corral-tiny >"$r/etc/hostname"; echo '127.0.0.1 localhost' >"$r/etc/hosts"
  printf 'PRETTY_NAME="Corral Tiny 1"\nNAME="Corral Tiny"\nID=corral-tiny\nVERSION_ID="1"\n' >"$r/etc/os-release"
  echo '{{ container.name }}' >"$w/templates/hostname.tpl"
  cat >"$w/metadata.yaml" <<E
architecture: x86_64
creation_date: $(date +%s)
properties:
  architecture: x86_64
  description: Corral tiny test image (busybox and dropbear)
  name: corral-tiny
  os: corral
  release: tiny
  variant: default
templates:
  /etc/hostname:
    when: [create, copy, rename]
    template: hostname.tpl
E
  tar -C "$w" --numeric-owner -czf "$LAB_DIR/corral-tiny.tar.gz.new" metadata.yaml templates rootfs
  mv "$LAB_DIR/corral-tiny.tar.gz.new" "$LAB_DIR/corral-tiny.tar.gz"
  rm -rf "$w"
}
[ -s "$LAB_DIR/corral-tiny.tar.gz" ] || { build_image; say "built corral-tiny.tar.gz ($(stat -c %s "$LAB_DIR/corral-tiny.tar.gz") bytes)"; }

# --- virtual machines (LAB_VM=1) -----------------------------------------------
write_shims() {
  mkdir -p "$LAB_DIR/shim"
  cat >"$LAB_DIR/shim/modprobe" <<'E'
#!/bin/sh
for a in "$@"; do [ "$a" = vhost_vsock ] && exit 0; done
for m in /usr/sbin/modprobe /sbin/modprobe; do [ -x $m ] && exec $m "$@"; done
exit 1
E
  cat >"$LAB_DIR/shim/qemu-system-x86_64" <<'E'
#!/usr/bin/perl
# Run Incus virtual machines with software emulation and without a vsock device.
use strict; use warnings;
my @a = @ARGV;
for my $i (0..$#a-1) {
  my ($o, $v) = @a[$i, $i+1];
  if ($o eq '-accel') { $a[$i+1] = 'tcg,thread=multi' }
  if ($o eq '-cpu') { $a[$i+1] = 'max' }
  if ($o eq '-readconfig' and open my $f, '<', $v) {
    local $/; my $c = <$f>; close $f;
    $c =~ s/^\[device "qemu_vsock"\]\n(?:(?!\[).*\n)*//m;
    $c =~ s/^accel = "kvm"/accel = "tcg"/mg;
    if (open my $o, '>', $v) { print $o $c; close $o }
  }
}
my $bin = '/usr/bin/qemu-system-x86_64';
(my $own = $0) =~ s{/shim/[^/]*$}{/qemu/usr};         # a private copy, if there is one
if (-x "$own/bin/qemu-system-x86_64") {
  $bin = "$own/bin/qemu-system-x86_64";
  $ENV{QEMU_MODULE_DIR} = "$own/lib/x86_64-linux-gnu/qemu";
}
exec { $bin } $bin, @a or die "exec $bin: $!";
E
  cat >"$LAB_DIR/shim/incusd-launch" <<'E'
#!/usr/bin/perl
# Start the Incus daemon on a machine without the vhost-vsock driver.
#
# To run virtual machines the daemon gives each a vsock address, listens on the
# host's vsock address and lifts the locked-memory limit. Where the kernel refuses
# these, a seccomp filter answers the first and the last with success. For the
# second, this process watches the daemon's 16-byte bind() calls and turns a bind
# to vsock address 2 into one to the wildcard address; other calls are unchanged.
use strict; use warnings;
use Errno qw(EINTR ENOENT);
my $cidfd = 0xffffffff;
sub ins { pack 'S C C L', @_ }
my @f = (
  ins(0x20,0,0,4),  ins(0x15,0,16,0xC000003E),    # x86-64 calls only
  ins(0x20,0,0,0),
  ins(0x15,4,0,16), ins(0x15,5,0,49), ins(0x15,6,0,302), ins(0x15,9,0,160), ins(0x06,0,0,0x7fff0000),
  ins(0x20,0,0,24), ins(0x15,9,8,0x4008AF60),     # ioctl: VHOST_VSOCK_SET_GUEST_CID -> 0
  ins(0x20,0,0,32), ins(0x15,8,6,16),             # bind: 16-byte address -> ask below
  ins(0x20,0,0,32), ins(0x15,4,0,0), ins(0x20,0,0,24), ins(0x15,3,2,8),  # prlimit64: set memlock -> 0
  ins(0x20,0,0,16), ins(0x15,1,0,8),              # setrlimit: memlock -> 0
  ins(0x06,0,0,0x7fff0000), ins(0x06,0,0,0x00050000), ins(0x06,0,0,0x7fc00000));
my $prog = join '', @f;
my $fprog = pack 'S x6 P', scalar(@f), $prog;
pipe(my $r1, my $w1) or die; pipe(my $r2, my $w2) or die;
my $pid = fork // die "fork: $!\n";
if (!$pid) {
  close $r1; close $w2;
  my $fd = syscall(317, 1, 8, $fprog);           # seccomp(SET_MODE_FILTER, NEW_LISTENER)
  die "seccomp: $!\n" if $fd < 0;
  syswrite $w1, pack('l', $fd); close $w1;
  sysread $r2, my $ok, 1;
  exec { $ARGV[0] } @ARGV or die "exec: $!\n";
}
close $w1; close $r2;
sysread($r1, my $b, 4) == 4 or die "no listener\n";
my $pidfd = syscall(434, $pid, 0); die "pidfd_open: $!\n" if $pidfd < 0;
my $lfd = syscall(438, $pidfd, unpack('l', $b), 0); die "pidfd_getfd: $!\n" if $lfd < 0;
open my $l, '+<&=', $lfd or die "fdopen: $!\n";
syswrite $w2, '1'; close $w2;
for my $s (qw(TERM INT PWR)) { $SIG{$s} = sub { kill $s, $pid } }
$SIG{CHLD} = 'DEFAULT';
my $gone = 0;
while (1) {
  my $n = "\0" x 80;
  if (!defined ioctl($l, 0xc0502100, $n)) {       # SECCOMP_IOCTL_NOTIF_RECV
    my $e = $!+0;
    next if $e == EINTR;
    last if $e != ENOENT || ++$gone > 20;           # ENOENT for good: nobody is left
    select undef, undef, undef, 0.05;
    next;
  }
  $gone = 0;
  my ($id, $p, undef, undef, undef, undef, @a) = unpack 'Q L L l L Q Q6', $n;
  if (open my $m, '+<', "/proc/$p/mem") {
    binmode $m;
    if (sysseek($m, $a[1], 0) and (sysread($m, my $sa, 16) // 0) == 16) {
      my ($fam, undef, $port, $cid) = unpack 'S S L L', $sa;
      if ($fam == 40 && $cid == 2) { sysseek($m, $a[1] + 8, 0); syswrite $m, pack('L', $cidfd) }
    }
    close $m;
  }
  my $resp = pack 'Q q l L', $id, 0, 0, 1;         # SECCOMP_USER_NOTIF_FLAG_CONTINUE
  ioctl($l, 0xc0182101, $resp);
}
waitpid $pid, 0;
exit($? >> 8);
E
  chmod 755 "$LAB_DIR"/shim/*
  [ -e /dev/vhost-vsock ] || { mknod -m 600 /dev/vhost-vsock c 1 3; : >"$LAB_DIR/run/vhost-vsock.ours"; }
  [ -e /dev/kvm ] || { mknod -m 600 /dev/kvm c 1 3; : >"$LAB_DIR/run/kvm.ours"; }
}
# Stateful stop and live migration need QEMU 8.2 or later. The release's QEMU stays
# as it is: a newer one is unpacked for the lab alone.
private_qemu() {
  local w=$LAB_DIR/qemu.new c p; c=$(. /etc/os-release; echo "$VERSION_CODENAME-backports")
  rm -rf "$w"; mkdir -p "$w/deb"
  (cd "$w/deb" && for p in qemu-system-x86 qemu-system-common qemu-system-data qemu-system-modules-spice qemu-system-modules-opengl seabios; do
    apt-get -q download "$p/$c" >>"$LAB_DIR/apt.log" 2>&1 || exit 1; done) || { rm -rf "$w"; return 1; }
  for p in "$w"/deb/*.deb; do dpkg -x "$p" "$w"; done
  rm -rf "$w/deb"
  "$w/usr/bin/qemu-system-x86_64" --version >/dev/null 2>&1 || { rm -rf "$w"; return 1; }
  mv "$w" "$LAB_DIR/qemu"
}
build_vm_image() {
  local w=$LAB_DIR/vmimage k v m n=0
  rm -rf "$w"; mkdir -p "$w/deb"
  k=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\(linux-image-[^ ]*\)$/\1/p' | head -1)
  (cd "$w/deb" && apt-get -q download "$k" >>"$LAB_DIR/apt.log" 2>&1 && dpkg -x ./*.deb x)
  v=$(ls "$w/deb/x/lib/modules")
  tar -C "$w" -xzf "$LAB_DIR/corral-tiny.tar.gz" rootfs
  mkdir -p "$w/rootfs/lib/modules" "$w/rootfs/etc/acpi/PWRF"
  for m in drivers/virtio/virtio_ring drivers/virtio/virtio drivers/virtio/virtio_pci_modern_dev \
    drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci net/core/failover drivers/net/net_failover \
    drivers/net/virtio_net drivers/input/evdev drivers/acpi/button; do
    n=$((n + 1))
    cp "$w/deb/x/lib/modules/$v/kernel/$m.ko" "$w/rootfs/lib/modules/$(printf '%02d' $n)-${m##*/}.ko"
  done
  cat >"$w/rootfs/init" <<'E'
#!/bin/sh
export PATH=/sbin:/bin:/usr/sbin:/usr/bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts; mount -t devpts devpts /dev/pts
for m in /lib/modules/*.ko; do insmod "$m"; done
( sleep 1; exec acpid -f -c /etc/acpi >/dev/null 2>&1 ) &
exec /sbin/init
E
  printf '#!/bin/sh\nkill -USR2 1\n' >"$w/rootfs/etc/acpi/PWRF/00000080"
  chmod 755 "$w/rootfs/init" "$w/rootfs/etc/acpi/PWRF/00000080"
  (cd "$w/rootfs" && find . | cpio -o -H newc --quiet | gzip -6) >"$w/initrd.gz"
  printf 'console=ttyS0 panic=5 quiet' >"$w/cmdline"
  objcopy --add-section .osrel="$w/rootfs/etc/os-release" --change-section-vma .osrel=0x20000 \
    --add-section .cmdline="$w/cmdline" --change-section-vma .cmdline=0x30000 \
    --add-section .linux="$w/deb/x/boot/vmlinuz-$v" --change-section-vma .linux=0x2000000 \
    --add-section .initrd="$w/initrd.gz" --change-section-vma .initrd=0x3000000 \
    /usr/lib/systemd/boot/efi/linuxx64.efi.stub "$w/BOOTX64.EFI"
  truncate -s 48M "$w/esp.img"
  mkfs.vfat -F 32 -n CORRAL "$w/esp.img" >/dev/null
  mmd -i "$w/esp.img" ::/EFI ::/EFI/BOOT
  mcopy -i "$w/esp.img" "$w/BOOTX64.EFI" ::/EFI/BOOT/BOOTX64.EFI
  qemu-img convert -O qcow2 -c "$w/esp.img" "$w/rootfs.img"
  cat >"$w/metadata.yaml" <<E
architecture: x86_64
creation_date: $(date +%s)
properties:
  architecture: x86_64
  description: Corral tiny test image (virtual machine)
  name: corral-tiny-vm
  os: corral
  release: tiny
  variant: default
requirements:
  secureboot: "false"
E
  tar -C "$w" -czf "$LAB_DIR/corral-tiny-vm.tar.gz.new" metadata.yaml rootfs.img
  mv "$LAB_DIR/corral-tiny-vm.tar.gz.new" "$LAB_DIR/corral-tiny-vm.tar.gz"
  rm -rf "$w"
}
if [ "$LAB_VM" != 0 ]; then
  write_shims
  [ -x "$LAB_DIR/qemu/usr/bin/qemu-system-x86_64" ] || private_qemu || say 'no newer QEMU: no stateful stop, no live migration of virtual machines'
  [ -s "$LAB_DIR/corral-tiny-vm.tar.gz" ] || { build_vm_image; say "built corral-tiny-vm.tar.gz ($(stat -c %s "$LAB_DIR/corral-tiny-vm.tar.gz") bytes)"; }
fi

# --- daemons ----------------------------------------------------------------
start_host() {
  local h=$1 dir log
  dir=$(host_dir "$h"); log=$(host_log "$h")
  if as_host "$h" "$INCUSD" waitready --timeout=1 >/dev/null 2>&1; then say "host $h: already running"; return; fi
  mkdir -p "$dir" "$(dirname "$log")"
  local launch=() path=$CLEAN_PATH
  [ "$LAB_VM" = 0 ] || { launch=("$LAB_DIR/shim/incusd-launch"); path=$LAB_DIR/shim:$path; }
  env -i PATH="$path" HOME=/root LANG=C.UTF-8 INCUS_DIR="$dir" \
    setsid "${launch[@]}" "$INCUSD" --group incus-admin --logfile "$log" \
    </dev/null >"$LAB_DIR/incusd-$h.out" 2>&1 9>&- &
  echo $! >"$LAB_DIR/run/incusd-$h.pid"
  as_host "$h" "$INCUSD" waitready --timeout=60 || { tail -20 "$log" "$LAB_DIR/incusd-$h.out" >&2; die "host $h: the daemon did not get ready"; }
  say "host $h: started"
}

setup_host() {
  local h=$1
  if ! as_host "$h" incus storage show default >/dev/null 2>&1; then
    as_host "$h" incus admin init --preseed <<E
config:
  core.https_address: 127.0.0.1:$(host_port "$h")
  images.auto_update_interval: "0"
storage_pools:
- name: default
  driver: dir
- name: second
  driver: dir
networks:
- name: corralnet$(host_num "$h")
  type: bridge
  config: {ipv4.address: none, ipv6.address: none}
- name: $(host_bridge "$h")
  type: bridge
  config:
    ipv4.address: $(host_net "$h").1/24
    ipv4.nat: "false"
    ipv6.address: none
profiles:
- name: default
  devices:
    root: {type: disk, path: /, pool: default}
    eth0: {type: nic, name: eth0, network: $(host_bridge "$h")}
E
    say "host $h: initialised"
  fi
  if ! as_host "$h" incus image info corral-tiny >/dev/null 2>&1; then
    as_host "$h" incus image import "$LAB_DIR/corral-tiny.tar.gz" --alias corral-tiny >/dev/null
    say "host $h: image imported"
  fi
  if [ "$LAB_VM" != 0 ]; then
    as_host "$h" incus query /1.0 | grep -q '"driver": ".*qemu' ||
      die "host $h runs without virtual machine support: run incus-down.sh, then LAB_VM=1 incus-up.sh"
    if ! as_host "$h" incus image info corral-tiny-vm >/dev/null 2>&1; then
      as_host "$h" incus image import "$LAB_DIR/corral-tiny-vm.tar.gz" --alias corral-tiny-vm >/dev/null
      say "host $h: virtual machine image imported"
    fi
    if ! as_host "$h" incus profile show vm >/dev/null 2>&1; then
      as_host "$h" incus profile create vm >/dev/null </dev/null
      as_host "$h" incus profile edit vm <<E
config: {security.secureboot: "false", limits.cpu: "1", limits.memory: 256MiB}
devices:
  root: {type: disk, path: /, pool: default, size: 64MiB}
  eth0: {type: nic, name: eth0, network: $(host_bridge "$h")}
E
    fi
  fi
  if ! INCUS_CONF=$LAB_DIR/client incus list "lab-$h:" -f csv >/dev/null 2>&1; then
    INCUS_CONF=$LAB_DIR/client incus remote remove "lab-$h" >/dev/null 2>&1 || true
    local token
    token=$(as_host "$h" incus config trust add corral-lab -q)
    INCUS_CONF=$LAB_DIR/client incus remote add "lab-$h" "$token" >/dev/null 2>&1 </dev/null ||
      die "host $h: could not add the remote"
    say "host $h: client certificate trusted as remote lab-$h"
  fi
}

mkdir -p "$LAB_DIR/client"
for h in $LAB_HOSTS; do start_host "$h"; done
for h in $LAB_HOSTS; do setup_host "$h"; done

# --- summary -------------------------------------------------------------------
{
  echo "LAB_DIR=$LAB_DIR"
  echo "INCUS_CONF=$LAB_DIR/client"
  echo "LAB_CLIENT_CERT=$LAB_DIR/client/client.crt"
  echo "LAB_CLIENT_KEY=$LAB_DIR/client/client.key"
  echo "LAB_SSH_KEY=$LAB_DIR/id_ed25519"
  for h in $LAB_HOSTS; do
    H=${h^^}
    echo "LAB_${H}_SOCKET=$(host_dir "$h")/unix.socket"
    echo "LAB_${H}_URL=https://127.0.0.1:$(host_port "$h")"
    echo "LAB_${H}_SERVER_CERT=$LAB_DIR/client/servercerts/lab-$h.crt"
    echo "LAB_${H}_REMOTE=lab-$h"
  done
} >"$LAB_DIR/env.new"
mv "$LAB_DIR/env.new" "$LAB_DIR/env"
cat "$LAB_DIR/env"
say 'ready'
