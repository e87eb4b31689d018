#!/usr/bin/env bash
# What runs on a node, from the Go module proxy, static: Kubernetes, the network
# plugins, crictl, CoreDNS, pause, what enforces NetworkPolicies; and kind itself.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

bin=$KIND_CACHE/bin
mkdir -p "$bin" "$KIND_CACHE/cni"
version=k8s.io/component-base/version
kubernetes_stamp="-s -w -X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 -X $version.gitMinor=$(cut -d. -f2 <<<$KUBERNETES_VERSION)"
kubernetes_stamp+=" -X $version.gitTreeState=clean -X $version.gitCommit=0000000000000000000000000000000000000000 -X $version.buildDate=2026-01-01T00:00:00Z"

cd "$KIND_SCRIPTS/kubernetes"
for name in kubeadm kubectl kubelet kube-proxy kube-scheduler kube-controller-manager kube-apiserver; do
  step "building $name" go build -trimpath -ldflags "$kubernetes_stamp" -o "$bin/$name" k8s.io/kubernetes/cmd/$name
done
for name in pause coredns netpol; do
  cd "$KIND_SCRIPTS/$name"
  step "building $name" go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$bin/$name" .
done
cd /
install_into() { GOBIN=$1 go install -trimpath -ldflags "-s -w" "$2"; }
for plugin in main/ptp main/loopback ipam/host-local meta/portmap; do
  install_into "$KIND_CACHE/cni" github.com/containernetworking/plugins/plugins/$plugin@$CNI_VERSION
done
step "building kind" install_into "$bin" sigs.k8s.io/kind@$KIND_VERSION
step "building crictl" install_into "$bin" sigs.k8s.io/cri-tools/cmd/crictl@$CRICTL_VERSION
