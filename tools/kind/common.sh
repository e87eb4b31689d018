# Shared by the scripts here. Sourced, never run.
set -euo pipefail

KIND_VERSION=v0.33.0
KUBERNETES_VERSION=v1.36.3
ETCD_TAG=3.6.8-0
COREDNS_TAG=v1.14.2
CNI_VERSION=v1.9.1
CRICTL_VERSION=v1.36.0
DEBIAN_SUITE=bookworm

# Everything that is built is kept here between runs.
KIND_CACHE=${KIND_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/dynamic-config-fleet/kind}
KIND_SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
NODE_IMAGE=dynamic-config.e2e/node:$KUBERNETES_VERSION
export KIND_CACHE DOCKER_BUILDKIT=0 GOWORK=off CGO_ENABLED=0

say() { echo "kind: $*" >&2; }

fail() {
  echo "kind: $*" >&2
  exit 1
}

# step NAME COMMAND...: says what takes time.
step() {
  local name=$1 begin=$SECONDS
  shift
  "$@"
  say "$name took $((SECONDS - begin)) s"
}
