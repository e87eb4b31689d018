#!/usr/bin/env bash
# Says why kind clusters cannot run here, before anything is built.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A single-node cluster takes about 27 inotify instances: kubelet, containerd,
# systemd, kube-proxy and the pods' own.
instances_per_cluster=27
clusters=${1:-3}

[ "$(uname -s)" = Linux ] || fail "kind nodes need Linux"
[ "$(id -u)" = 0 ] || [ -n "${DOCKER_HOST:-}" ] || fail "starting a container engine needs root; or set DOCKER_HOST to one that runs"

limit=$(</proc/sys/fs/inotify/max_user_instances)
used=$({ find /proc/[0-9]*/fd -lname 'anon_inode:inotify' 2>/dev/null || true; } | wc -l)
if ((limit - used < clusters * instances_per_cluster)); then
  fail "fs.inotify.max_user_instances is $limit and $used are in use: $clusters clusters need $((clusters * instances_per_cluster)) more. Raise it: sysctl fs.inotify.max_user_instances=$((used + clusters * instances_per_cluster + 16))"
fi

free=$(df --output=avail -BG "$(dirname "$KIND_CACHE")" 2>/dev/null | tail -1 | tr -dc 0-9)
((${free:-99} >= 10)) || fail "only $free GB are free at $KIND_CACHE: 10 are needed"

memory=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
((memory >= 4)) || fail "only $memory GB of memory are available: $clusters clusters need 4"
