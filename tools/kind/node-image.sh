#!/usr/bin/env bash
# The node image: root file system, kind's own files, the binaries, the images of
# the control plane. It is stamped with what it is made of, and made once.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

etcd=${1:?the etcd binary}
stamp=$(cd "$KIND_SCRIPTS" && find . -type f ! -name '*.md' ! -name run.sh ! -name check.sh ! -name engine.sh ! -name images.sh ! -name golang-image.sh ! -path './certmanager/*' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16)
if [ "$(docker image inspect -f '{{.Config.Labels.stamp}}' $NODE_IMAGE 2>/dev/null)" = "$stamp" ]; then
  say "the node image is there"
  exit 0
fi
step "debootstrap" "$KIND_SCRIPTS/node-rootfs.sh"
step "building the node's binaries" "$KIND_SCRIPTS/node-binaries.sh"
step "building the control plane's images" "$KIND_SCRIPTS/node-images.sh" "$etcd"

bin=$KIND_CACHE/bin
node=$KIND_CACHE/node
files=$(go env GOMODCACHE)/sigs.k8s.io/kind@$KIND_VERSION/images/base/files
rm -rf "$node"
cp -a "$KIND_CACHE/rootfs" "$node"
rm -f "$node/.done"
cp -r "$files/." "$node/"
chmod -R u+w "$node/kind" "$node/etc" "$node/usr/local"
find "$node"/kind "$node"/etc/{systemd/system,sysctl.d,default,containerd,crictl.yaml} -type f -exec chmod 644 {} +
find "$node"/{kind,etc,usr/local} -type d -exec chmod 755 {} +
chmod 755 "$node"/usr/local/bin/* "$node"/kind/bin/*
mkdir -p "$node"/etc/kubernetes/manifests "$node"/opt/cni/bin "$node"/etc/cni/net.d "$node"/kind/manifests
cp "$KIND_CACHE"/cni/* "$node/opt/cni/bin/"
cp "$bin"/{kubeadm,kubectl,kubelet} "$node/usr/bin/"
cp "$bin"/{crictl,netpol} "$node/usr/local/bin/"
for name in containerd ctr containerd-shim-runc-v2; do ln -sf /usr/bin/$name "$node/usr/local/bin/$name"; done

# As the administrator of the node's own cluster, from the moment that there is one.
cat >"$node/etc/systemd/system/netpol.service" <<'UNIT'
[Unit]
Description=NetworkPolicies
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/bin/netpol /etc/kubernetes/admin.conf
Restart=always
RestartSec=2
UNIT

# Debian's own containerd.service is in /lib, and kind's in /etc wins. They are
# enabled by hand: no systemd runs here.
wants=$node/etc/systemd/system/multi-user.target.wants
mkdir -p "$wants"
for unit in kubelet containerd netpol undo-mount-hacks; do ln -sf /etc/systemd/system/$unit.service "$wants/$unit.service"; done
ln -sf /dev/null "$node/etc/systemd/system/systemd-binfmt.service"

chroot "$node" ctr oci spec |
  chroot "$node" jq '.hooks.createContainer[.hooks.createContainer | length] |= . + {"path": "/kind/bin/mount-product-files.sh"} | del(.process.rlimits)' \
    >"$node/etc/containerd/cri-base.json"
# Without CAP_SYS_RESOURCE no process may lower its oom_score_adj: containerd clamps it.
sed -i 's/restrict_oom_score_adj = false/restrict_oom_score_adj = true/' "$node/etc/containerd/config.toml"
cat >>"$node/etc/containerd/config.toml" <<'TOML'

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/opt/cni/bin"
  conf_dir = "/etc/cni/net.d"
TOML
(cd "$KIND_SCRIPTS/guard" && go run . "$node/usr/local/bin/entrypoint")
# A network for one node, without a daemon.
cat >"$node/etc/cni/net.d/10-ptp.conflist" <<'JSON'
{"cniVersion":"0.4.0","name":"ptp","plugins":[
 {"type":"ptp","ipMasq":true,"mtu":1500,
  "ipam":{"type":"host-local","dataDir":"/run/cni-ipam-state","routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"10.244.0.0/24"}]]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
JSON
# Pods ask their own gateway for names of outside. Nothing listens there: the query
# fails at once and leaves the machine never.
echo 'nameserver 10.244.0.1' >"$node/kind/pod-resolv.conf"
echo -n $KUBERNETES_VERSION >"$node/kind/version"
rm -f "$node"/etc/{machine-id,resolv.conf,hostname}
: >"$node/etc/machine-id"
: >"$node/etc/resolv.conf"

# In two steps: docker import cannot set the stop signal.
tar -C "$node" --numeric-owner -c . | docker import - dynamic-config.e2e/node-files:$KUBERNETES_VERSION >/dev/null
docker build -q -t dynamic-config.e2e/node-base:$KUBERNETES_VERSION - >/dev/null 2>&1 <<EOD
FROM dynamic-config.e2e/node-files:$KUBERNETES_VERSION
ENV container=docker PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
STOPSIGNAL SIGRTMIN+3
LABEL stamp=$stamp
ENTRYPOINT [ "/usr/local/bin/entrypoint", "/sbin/init" ]
EOD
container=$(docker run -d --network none --entrypoint=sleep --security-opt seccomp=unconfined dynamic-config.e2e/node-base:$KUBERNETES_VERSION infinity)
trap 'docker rm -f -v $container >/dev/null' EXIT
docker exec "$container" bash -c 'nohup containerd >/var/log/containerd.log 2>&1 &'
docker exec "$container" bash -c 'for _ in {1..60}; do ctr version >/dev/null 2>&1 && exit 0; sleep 0.5; done; tail -20 /var/log/containerd.log; exit 1' >&2
docker exec -i "$container" ctr -n k8s.io images import --all-platforms --no-unpack --digests - <"$KIND_CACHE/images.tar" >/dev/null
docker exec "$container" bash -c 'kill $(pidof containerd); sleep 2; rm -f /var/log/containerd.log'
older=$(docker image inspect -f '{{.Id}}' $NODE_IMAGE 2>/dev/null || true)
docker commit --change 'ENTRYPOINT [ "/usr/local/bin/entrypoint", "/sbin/init" ]' "$container" $NODE_IMAGE >/dev/null
[ -z "$older" ] || docker rmi "$older" >/dev/null || true
rm -rf "$node"
