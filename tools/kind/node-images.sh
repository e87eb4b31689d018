#!/usr/bin/env bash
# The images of the control plane, from nothing but the binaries, under the names
# that kubeadm expects, saved to one archive.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

registry=registry.k8s.io
root=$KIND_CACHE/rootfs
bin=$KIND_CACHE/bin
etcd=${1:?the etcd binary}
work=$KIND_CACHE/images
rm -rf "$work"
mkdir -p "$work"

# base FOLDER: what every image has.
base() {
  mkdir -p "$1/root"/{etc,tmp}
  chmod 1777 "$1/root/tmp"
  echo 'root:x:0:0:root:/:/' >"$1/root/etc/passwd"
  echo 'root:x:0:' >"$1/root/etc/group"
}

# build TAG ENTRYPOINT FOLDER
build() {
  printf 'FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nENTRYPOINT ["%s"]\n' "$2" >"$3/Dockerfile"
  docker build -q -t "$1" "$3" >/dev/null 2>&1 || fail "the image $1 cannot be built"
}

# single TAG PATH BINARY: an image of one static binary.
single() {
  local folder
  folder=$(mktemp -d "$work/image.XXXX")
  base "$folder"
  mkdir -p "$folder/root/$(dirname "$2")"
  cp "$3" "$folder/root/$2"
  build "$1" "$2" "$folder"
}

for name in kube-apiserver kube-controller-manager kube-scheduler; do
  single $registry/$name:$KUBERNETES_VERSION /usr/local/bin/$name "$bin/$name"
done
single $registry/etcd:$ETCD_TAG /usr/local/bin/etcd "$etcd"
single $registry/coredns/coredns:$COREDNS_TAG /coredns "$bin/coredns"
single $registry/pause:3.10 /pause "$bin/pause"
docker tag $registry/pause:3.10 $registry/pause:3.10.2

# kube-proxy: its binary, and iptables, nft, conntrack and ip of the node with the
# libraries they load.
proxy=$work/proxy
base "$proxy"
with_libraries() {
  mkdir -p "$proxy/root/$(dirname "$1")"
  cp -L "$root/$1" "$proxy/root/$1"
  chroot "$root" ldd "$1" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
    mkdir -p "$proxy/root/$(dirname "$library")"
    cp -Ln "$root/$library" "$proxy/root/$library" || true
  done
}
for file in /usr/sbin/xtables-nft-multi /usr/sbin/xtables-legacy-multi /usr/sbin/nft /usr/sbin/conntrack /bin/ip /bin/kmod; do
  with_libraries $file
done
for file in "$root"/usr/lib/*-linux-gnu/xtables/*.so; do with_libraries "${file#"$root"}"; done
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  ln -sf xtables-nft-multi "$proxy/root/usr/sbin/$name"
done
mkdir -p "$proxy/root/sbin" "$proxy/root/run" "$proxy/root/usr/local/bin"
ln -sf /bin/kmod "$proxy/root/sbin/modprobe"
cp "$root/etc/protocols" "$proxy/root/etc/" 2>/dev/null || true
cp "$bin/kube-proxy" "$proxy/root/usr/local/bin/"
build $registry/kube-proxy:$KUBERNETES_VERSION /usr/local/bin/kube-proxy "$proxy"
# The extensions are loaded at run time: a missing library shows here, and not as a
# Service that leads nowhere.
docker run --rm --network none --cap-add NET_ADMIN --entrypoint /usr/sbin/iptables $registry/kube-proxy:$KUBERNETES_VERSION \
  -A INPUT -m statistic --mode random --probability 0.5 -m conntrack --ctstate NEW -m comment --comment x -j ACCEPT ||
  fail "iptables of the image kube-proxy does not work"

docker save -o "$KIND_CACHE/images.tar" \
  $registry/kube-{apiserver,controller-manager,scheduler,proxy}:$KUBERNETES_VERSION \
  $registry/etcd:$ETCD_TAG $registry/coredns/coredns:$COREDNS_TAG $registry/pause:3.10 $registry/pause:3.10.2
rm -rf "$work"
