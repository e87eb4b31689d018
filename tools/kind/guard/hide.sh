hide_unmounted_controllers() {
  # On a host with cgroup v1, systemd would mount every controller that is not
  # mounted yet, and so take it from the host's cgroup v2 tree.
  local c
  { head -n1 /proc/cgroups; tail -n +2 /proc/cgroups | while read -r c rest; do
      if [[ -d "/sys/fs/cgroup/$c" ]]; then printf '%s\t%s\n' "$c" "$rest"; fi
    done; } >/kind/fake-cgroups
  mount --bind /kind/fake-cgroups /proc/cgroups
}

