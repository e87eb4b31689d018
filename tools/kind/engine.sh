#!/usr/bin/env bash
# engine.sh start: a container engine of our own, from Debian's packages, with its
# own data, socket and network namespace, which has no way out. engine.sh stop ends
# it, and with the namespace go all its bridges and rules.
# engine.sh inside COMMAND...: runs a command in that namespace.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

RUN=${KIND_RUN:?a folder for the socket and the pid of the engine}
SOCKET=unix://$RUN/docker.sock
NAMESPACE=$(basename "$RUN")

inside() { nsenter --net="/run/netns/$NAMESPACE" "$@"; }

packages() {
  local missing=()
  for need in docker.io:dockerd iptables:iptables iproute2:ip debootstrap:debootstrap; do
    command -v "${need#*:}" >/dev/null || missing+=("${need%:*}")
  done
  command -v docker >/dev/null || missing+=(docker.io)
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || fail "${missing[*]} are missing, and this is no Debian to install them from"
  say "installing ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
    { apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; }
}

start() {
  packages
  mkdir -p "$RUN" "$KIND_CACHE/bin"
  (cd "$KIND_SCRIPTS/kindrunc" && go build -trimpath -ldflags "-s -w" -o "$KIND_CACHE/bin/kindrunc" .)
  # The client of the same package, whichever else is in PATH: it has BuildKit without a plugin.
  ln -sf /usr/bin/docker "$KIND_CACHE/bin/docker"
  ip netns add "$NAMESPACE"
  inside ip link set lo up
  # --dns names a pod network's gateway, where nothing listens: names of outside are
  # asked of nobody.
  setsid nsenter --net="/run/netns/$NAMESPACE" dockerd --data-root "$KIND_CACHE/engine" --exec-root "$RUN/exec" --host "$SOCKET" --pidfile "$RUN/docker.pid" \
    --add-runtime "kindrunc=$KIND_CACHE/bin/kindrunc" --default-runtime kindrunc --dns 10.244.0.1 \
    >"$RUN/dockerd.log" 2>&1 </dev/null 9>&- &
  for _ in $(seq 60); do
    DOCKER_HOST=$SOCKET docker version >/dev/null 2>&1 && return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.5
  done
  tail -5 "$RUN/dockerd.log" >&2
  fail "the container engine does not start: see above"
}

stop() {
  local pid
  if pid=$(cat "$RUN/docker.pid" 2>/dev/null) && kill "$pid" 2>/dev/null; then
    for _ in $(seq 60); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.5
    done
    kill -0 "$pid" 2>/dev/null && say "the engine, pid $pid, does not end"
  fi
  ip netns delete "$NAMESPACE" 2>/dev/null || true
}

"$@"
