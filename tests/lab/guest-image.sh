#!/usr/bin/env bash
# Builds the small Linux guest that tests boot, from Debian packages alone.
#
#   tests/lab/guest-image.sh [OUT]        OUT is target/lab/guest where it is not given
#
# OUT then holds
#   guest.qcow2         a disk that boots by BIOS (syslinux) and by UEFI (\EFI\BOOT\BOOTX64.EFI, kernel, initrd
#                       and command line in one file); its second partition "labdata" is /data in the guest
#   data.qcow2          the same partitions without a boot loader, for direct kernel boot
#   vmlinuz, initrd     kernel and system for direct boot; vmlinux (PVH) and initrd.cpio boot faster
#   id_ed25519          a login key made here; root's password is LAB_GUEST_PASSWORD
#   guest.env           all of this as shell assignments
#
# The guest has root logins on ttyS0, tty1 and SSH, DHCP on every NIC, the QEMU guest agent, a power button
# that shuts it down, and takes hot-added CPUs, memory and NICs. "lab-guest login:" on ttyS0 says it is up.
#
# Built once: a second run with the same script, files and password does nothing. FORCE=1 builds anew,
# LAB_SKIP_APT=1 installs nothing.
set -euo pipefail
export LC_ALL=C
HERE=$(dirname "$(readlink -f "$0")")
FILES=$HERE/guest
OUT=$(readlink -m "${1:-$HERE/../../target/lab/guest}")
LAB_GUEST_PASSWORD=${LAB_GUEST_PASSWORD:-corral-test}
CMDLINE_BASE="mitigations=off nokaslr no_timer_check random.trust_cpu=on panic=5"

log() { printf 'guest-image: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }

STAMP=$( { cat "$0" "$FILES"/*; printf '%s' "$LAB_GUEST_PASSWORD"; } | sha256sum | cut -d' ' -f1)
if [ "${FORCE:-0}" != 1 ] && [ -f "$OUT/.stamp" ] && [ "$(cat "$OUT/.stamp")" = "$STAMP" ]; then
  log "already built in $OUT"; echo "$OUT/guest.env"; exit 0
fi

# ---- tools -----------------------------------------------------------------------------------------
need=()
command -v cpio >/dev/null || need+=(cpio)
command -v mcopy >/dev/null || need+=(mtools)
command -v mkfs.vfat >/dev/null || [ -x /sbin/mkfs.vfat ] || need+=(dosfstools)
command -v syslinux >/dev/null || need+=(syslinux syslinux-common)
command -v ssh-keygen >/dev/null || need+=(openssh-client)
command -v qemu-img >/dev/null || need+=(qemu-utils)
command -v lz4 >/dev/null || need+=(lz4)
command -v objcopy >/dev/null || need+=(binutils)
command -v python3 >/dev/null || need+=(python3-minimal)
command -v openssl >/dev/null || need+=(openssl)
[ -x /sbin/sfdisk ] || need+=(fdisk)
[ -x /sbin/mkfs.ext4 ] || need+=(e2fsprogs)
if [ ${#need[@]} -gt 0 ]; then
  [ "${LAB_SKIP_APT:-0}" = 1 ] && die "missing packages: ${need[*]}"
  log "installing ${need[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=900 update -qq >&2 || true
  apt-get -o DPkg::Lock::Timeout=900 -y -qq --no-install-recommends install "${need[@]}" >&2
fi
export PATH=$PATH:/usr/sbin:/sbin

W=$(mktemp -d "${TMPDIR:-/tmp}/lab-guest.XXXXXX")
trap 'rm -rf "$W"' EXIT
mkdir -p "$W/debs" "$W/sys" "$W/root" "$OUT"

# ---- packages: downloaded and unpacked, never installed ---------------------------------------------
if ! apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1; then
  apt-get -o DPkg::Lock::Timeout=900 update -qq >&2
fi
KPKG=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/{print $2; exit}')
[ -n "$KPKG" ] || die "no Debian cloud kernel found"
LIBS="libc6 libcrypt1 libtomcrypt1 libtommath1 libgmp10 zlib1g libglib2.0-0 libpcre2-8-0 libnuma1 libudev1 liburing2 libgcc-s1"
(cd "$W/debs" && apt-get -qq -o APT::Sandbox::User=root download \
    "$KPKG" busybox-static dropbear-bin qemu-guest-agent openssh-sftp-server systemd-boot-efi $LIBS >&2)
for d in "$W"/debs/*.deb; do dpkg -x "$d" "$W/sys"; done
S=$W/sys R=$W/root
KVER=${KPKG#linux-image-}
BB=$S/bin/busybox; [ -x "$BB" ] || BB=$S/usr/bin/busybox

# ---- root file system --------------------------------------------------------------------------------
mkdir -p "$R"/{bin,sbin,dev,proc,sys,run,tmp,data,mnt,root/.ssh,var/log,var/run,lib64,etc/dropbear,usr/bin,usr/sbin,usr/lib/openssh,lib/modules/$KVER,etc/udhcpc}
chmod 700 "$R/root" "$R/root/.ssh"
cp "$BB" "$R/bin/busybox"
for a in $("$BB" --list); do
  case $a in busybox|init|dpkg|dpkg-deb|rpm|rpm2cpio|shutdown) ;; *) ln -sf busybox "$R/bin/$a" ;; esac
done
ln -s ../bin/busybox "$R/sbin/init"
for a in poweroff reboot halt ifconfig route ip hwclock; do ln -sf ../bin/busybox "$R/sbin/$a"; done
ln -sf ../../bin/busybox "$R/usr/sbin/chpasswd"

add() { # binary: copied with the libraries it needs
  local src=$1 dst=$2 lib
  install -D -m755 "$src" "$R$dst"
  LD_LIBRARY_PATH=$S/usr/lib/x86_64-linux-gnu:$S/lib/x86_64-linux-gnu ldd "$src" | grep -o '/[^ ]*' | while read -r lib; do
    case $lib in */ld-linux*) cp -Ln "$lib" "$R/lib64/" ;;
      *) mkdir -p "$R/usr/lib/x86_64-linux-gnu"; cp -Ln "$lib" "$R/usr/lib/x86_64-linux-gnu/" ;; esac
  done || true
}
add "$S/usr/sbin/dropbear" /usr/sbin/dropbear
add "$S/usr/bin/dropbearkey" /usr/bin/dropbearkey
add "$S/usr/sbin/qemu-ga" /usr/sbin/qemu-ga
add "$S/usr/lib/openssh/sftp-server" /usr/lib/openssh/sftp-server
ln -s openssh/sftp-server "$R/usr/lib/sftp-server"
mkdir -p "$R/usr/libexec"; ln -s ../lib/openssh/sftp-server "$R/usr/libexec/sftp-server"
for nss in libnss_files.so.2 libnss_dns.so.2; do
  f=$(find "$S" -name "$nss" | head -1); [ -z "$f" ] || cp -Ln "$f" "$R/usr/lib/x86_64-linux-gnu/"
done
ln -s ../usr/lib/x86_64-linux-gnu "$R/lib/x86_64-linux-gnu"

# kernel modules with their dependencies, in load order
"$BB" depmod -b "$S" "$KVER" 2>/dev/null || true
DEP=$S/lib/modules/$KVER/modules.dep
[ -s "$DEP" ] || die "depmod failed"
order() { # module names -> paths in load order
  local m line p
  for m in "$@"; do
    line=$(grep -E "(^|/)$m\.ko(\.xz)?:" "$DEP" | head -1) || continue
    for p in $(printf '%s\n' ${line/:/ } | tac); do printf '%s\n' "${p#/}"; done
  done | awk '!seen[$0]++'
}
EARLY="virtio_pci virtio_blk virtio_net virtio_console evdev button"
LATE="virtio_scsi sd_mod sr_mod virtio_balloon virtio_rng ata_piix ahci isofs vfat nls_ascii nls_cp437 e1000 virtio_mem virtiofs 9pnet_virtio 9p vsock vmw_vsock_virtio_transport"
copy_mods() {
  local p f
  while read -r p; do
    p=${p#lib/modules/$KVER/}
    f=$S/lib/modules/$KVER/$p
    [ -f "$f" ] || continue
    cp -n "$f" "$R/lib/modules/$KVER/"; basename "$p"
  done
}
order $EARLY | copy_mods > "$R/etc/modules.early"
order $LATE | copy_mods | grep -vxFf "$R/etc/modules.early" > "$R/etc/modules.late" || true

# accounts
PWHASH=$(openssl passwd -6 "$LAB_GUEST_PASSWORD")
[ -f "$OUT/id_ed25519" ] || ssh-keygen -q -t ed25519 -N '' -C lab-test-key -f "$OUT/id_ed25519"
cp "$OUT/id_ed25519.pub" "$R/root/.ssh/authorized_keys"; chmod 600 "$R/root/.ssh/authorized_keys"
printf 'root:x:0:0:root:/root:/bin/sh\nsshd:x:74:74::/run:/bin/false\n' > "$R/etc/passwd"
printf 'root:%s:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n' "$PWHASH" > "$R/etc/shadow"; chmod 600 "$R/etc/shadow"
printf 'root:x:0:\ntty:x:5:\nsshd:x:74:\n' > "$R/etc/group"
printf '/bin/sh\n/bin/ash\n' > "$R/etc/shells"
printf '127.0.0.1 localhost\n' > "$R/etc/hosts"
printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n' > "$R/etc/nsswitch.conf"
printf 'Lab guest \\n \\l\n\n' > "$R/etc/issue"
ln -s /proc/mounts "$R/etc/mtab"
install -m755 "$FILES/init" "$R/init"
install -m755 "$FILES/shutdown" "$R/sbin/shutdown"
install -m755 "$FILES/rc.power" "$FILES/rc.hotplug" "$R/etc/"
install -m755 "$FILES/default.script" "$R/etc/udhcpc/default.script"
install -m644 "$FILES/os-release" "$FILES/profile" "$FILES/inittab" "$R/etc/"
rmdir "$R/var/run" 2>/dev/null && ln -s /run "$R/var/run"
(cd "$R" && find . -print0 | sort -z | cpio --null --quiet -o -H newc -R 0:0) > "$W/initrd.cpio"
gzip -6 -c "$W/initrd.cpio" > "$W/initrd"

# ---- kernel: bzImage, and the uncompressed ELF inside it ---------------------------------------------
cp "$S/boot/vmlinuz-$KVER" "$W/vmlinuz"
python3 - "$W/vmlinuz" "$W/vmlinux" <<'X' || log "no vmlinux (PVH) made; use vmlinuz"
import sys, subprocess
d = open(sys.argv[1], 'rb').read()
for magic, cmd in ((b'\x02!L\x18', ['lz4', '-dc']), (b'\x28\xb5\x2f\xfd', ['zstd', '-dcq']),
                   (b'\xfd7zXZ\x00', ['xz', '-dcq']), (b'\x1f\x8b\x08', ['gzip', '-dcq'])):
    i = d.find(magic)
    while i >= 0:
        try:
            p = subprocess.run(cmd, input=d[i:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            break
        if p.stdout[:4] == b'\x7fELF':
            open(sys.argv[2], 'wb').write(p.stdout); sys.exit(0)
        i = d.find(magic, i + 1)
sys.exit(1)
X

# ---- UEFI: stub, command line, kernel and initrd in one file -------------------------------------------
CMDLINE="$CMDLINE_BASE quiet console=tty0 console=ttyS0,115200"
STUB=$(find "$S" -name linuxx64.efi.stub | head -1)
[ -n "$STUB" ] || die "systemd-boot-efi has no stub"
printf '%s\0' "$CMDLINE" > "$W/cmdline"
at=33554432 # 32 MiB: above all sections of the stub
sections=(--add-section .osrel="$FILES/os-release" --change-section-vma .osrel=0x20000
          --add-section .cmdline="$W/cmdline" --change-section-vma .cmdline=0x30000)
for part in linux:vmlinuz initrd:initrd; do
  sections+=(--add-section ".${part%:*}=$W/${part#*:}" --change-section-vma ".${part%:*}=$at")
  at=$(( (at + $(stat -c %s "$W/${part#*:}") + 0xfffff) / 0x100000 * 0x100000 ))
done
objcopy "${sections[@]}" "$STUB" "$W/bootx64.efi"

# ---- disk ---------------------------------------------------------------------------------------------
mkdisk() { # $1 raw image, $2 = boot|data
  local img=$1 bootmb=64 datamb=96
  truncate -s $((1 + bootmb + datamb + 1))M "$img"
  sfdisk -q "$img" >/dev/null <<X
label: dos
label-id: 0x1ab00001
start=1MiB, size=${bootmb}MiB, type=c, bootable
start=$((1 + bootmb))MiB, size=${datamb}MiB, type=83
X
  # two file systems, built in files of their own and copied in
  rm -f "$W/p1" "$W/p2"
  truncate -s ${bootmb}M "$W/p1"; mkfs.vfat -F 32 -n LABBOOT -i 1AB00002 "$W/p1" >/dev/null 2>&1 || mkfs.vfat -n LABBOOT "$W/p1" >/dev/null
  if [ "$2" = boot ]; then
    printf 'DEFAULT lab\nPROMPT 0\nTIMEOUT 0\nLABEL lab\n  KERNEL vmlinuz\n  INITRD initrd\n  APPEND %s\n' \
      "$CMDLINE" > "$W/syslinux.cfg"
    mcopy -i "$W/p1" "$W/vmlinuz" "$W/initrd" "$W/syslinux.cfg" ::
    mmd -i "$W/p1" ::/EFI ::/EFI/BOOT
    mcopy -i "$W/p1" "$W/bootx64.efi" ::/EFI/BOOT/BOOTX64.EFI
    syslinux --install "$W/p1"
  fi
  rm -rf "$W/datafs"; mkdir -p "$W/datafs"; echo 'lab data partition' > "$W/datafs/README"
  truncate -s ${datamb}M "$W/p2"; mkfs.ext4 -q -F -L labdata -O ^metadata_csum -m 0 -d "$W/datafs" "$W/p2"
  dd if="$W/p1" of="$img" bs=1M seek=1 conv=notrunc,sparse status=none
  dd if="$W/p2" of="$img" bs=1M seek=$((1 + bootmb)) conv=notrunc,sparse status=none
  if [ "$2" = boot ]; then
    # Debian has it in one of two places, by the package that brought it.
    local mbr=/usr/lib/syslinux/mbr/mbr.bin
    [ -e "$mbr" ] || mbr=/usr/lib/SYSLINUX/mbr.bin
    dd if="$mbr" of="$img" bs=440 count=1 conv=notrunc status=none
  fi
}
mkdisk "$W/guest.raw" boot; mkdisk "$W/data.raw" data
for n in guest data; do
  qemu-img convert -f raw -O qcow2 -o compat=1.1 "$W/$n.raw" "$W/$n.qcow2"
done

for f in vmlinuz vmlinux initrd initrd.cpio guest.qcow2 data.qcow2; do
  [ -f "$W/$f" ] && { cp "$W/$f" "$OUT/.$f.new"; chmod 644 "$OUT/.$f.new"; mv -f "$OUT/.$f.new" "$OUT/$f"; }
done
cat > "$OUT/guest.env" <<X
LAB_GUEST_DIR='$OUT'
LAB_GUEST_KERNEL='$OUT/vmlinuz'
LAB_GUEST_VMLINUX='$OUT/vmlinux'
LAB_GUEST_INITRD='$OUT/initrd'
LAB_GUEST_INITRD_RAW='$OUT/initrd.cpio'
LAB_GUEST_DISK='$OUT/guest.qcow2'
LAB_GUEST_DATA_DISK='$OUT/data.qcow2'
LAB_GUEST_CMDLINE='$CMDLINE'
LAB_GUEST_KEY='$OUT/id_ed25519'
LAB_GUEST_USER='root'
LAB_GUEST_PASSWORD='$LAB_GUEST_PASSWORD'
LAB_GUEST_KERNEL_VERSION='$KVER'
X
echo "$STAMP" > "$OUT/.stamp"
ls -l "$OUT" >&2
echo "$OUT/guest.env"
