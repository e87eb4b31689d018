#!/usr/bin/env bash
# The root file system of a node, from Debian's packages alone.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

root=$KIND_CACHE/rootfs
packages=systemd,systemd-sysv,dbus,containerd,runc,iptables,ipset,nftables,iproute2,ethtool,conntrack,socat,util-linux,mount,kmod,procps
packages+=,libseccomp2,e2fsprogs,bash,ca-certificates,curl,jq,ebtables,iputils-ping
[ "$(cat "$root/.done" 2>/dev/null)" = "$packages" ] && exit 0
# The mirror that this machine already uses.
mirror=${MIRROR:-$(awk '/^URIs:/ {print $2; exit} /^deb / {print $2; exit}' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)}
[ -n "$mirror" ] || fail "no Debian mirror is known: set MIRROR"
rm -rf "$root"
debootstrap --variant=minbase --include=$packages $DEBIAN_SUITE "$root" "$mirror" >"$KIND_CACHE/rootfs.log" 2>&1 ||
  { tail -5 "$KIND_CACHE/rootfs.log" >&2; fail "debootstrap failed: see $KIND_CACHE/rootfs.log"; }

# The same as kind's own images/base/Dockerfile removes.
find "$root/lib/systemd/system/sysinit.target.wants/" -name systemd-tmpfiles-setup.service -delete
rm -f "$root"/lib/systemd/system/multi-user.target.wants/* "$root"/etc/systemd/system/*.wants/* \
  "$root"/lib/systemd/system/local-fs.target.wants/* "$root"/lib/systemd/system/sockets.target.wants/*udev* \
  "$root"/lib/systemd/system/sockets.target.wants/*initctl* "$root"/lib/systemd/system/basic.target.wants/*
echo ReadKMsg=no >>"$root/etc/systemd/journald.conf"
rm -f "$root/usr/lib/sysctl.d/50-pid-max.conf" # host-wide on kernels before 6.14
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
echo "$packages" >"$root/.done"
