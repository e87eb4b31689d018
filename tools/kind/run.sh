#!/usr/bin/env bash
# run.sh COMMAND...: runs a command where kind works, and cleans up after it.
#
# The command finds kind, kubectl and docker in PATH, and DOCKER_HOST and
# KIND_NODE_IMAGE set. An engine is started unless DOCKER_HOST names one, and the
# command then runs in its network namespace, without a way out. Clusters of the run,
# and the engine when it is ours, are gone at the end: KEEP=1 keeps both.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$KIND_SCRIPTS/check.sh"
mkdir -p "$KIND_CACHE"
exec 9>"$KIND_CACHE/lock"
flock --nonblock 9 || fail "another run uses $KIND_CACHE: two engines cannot share it"
KIND_RUN=$(mktemp -d /tmp/dynamic-config-kind.XXXX)
export KIND_RUN PATH=$KIND_CACHE/bin:$PATH

cleanup() {
  if [ -n "${KEEP:-}" ]; then
    say "kept: export DOCKER_HOST=$DOCKER_HOST KIND_RUN=$KIND_RUN; tools/kind/engine.sh inside kubectl ..., and stop at last"
    return
  fi
  [ -x "$KIND_CACHE/bin/kind" ] && kind delete clusters hub east west >/dev/null 2>&1
  "$KIND_SCRIPTS/engine.sh" stop
  rm -rf "$KIND_RUN"
}
trap cleanup EXIT

inside=()
if [ -z "${DOCKER_HOST:-}" ]; then
  "$KIND_SCRIPTS/engine.sh" start
  export DOCKER_HOST=unix://$KIND_RUN/docker.sock
  "$KIND_SCRIPTS/golang-image.sh"
  inside=("$KIND_SCRIPTS/engine.sh" inside)
fi

testbin() { (cd "$KIND_SCRIPTS/../.." && go run ./internal/testbin/cmd/testbin "$@"); }
testbin etcd
"$KIND_SCRIPTS/node-image.sh" "$(testbin -path etcd)"

probe=$(docker run --rm --privileged --network none --entrypoint /bin/true $NODE_IMAGE 2>&1) ||
  fail "the engine does not run privileged containers, which nodes are: $probe"

export KIND_NODE_IMAGE=$NODE_IMAGE
"${inside[@]}" env -u CGO_ENABLED -u GOWORK "$@"
