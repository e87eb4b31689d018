# kubelet would set these for the whole machine: show it the values it wants.
for kv in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  f="/kind/fake-sysctl-$(echo "${kv%%=*}" | tr / -)"
  echo "${kv##*=}" >"$f"
  mount --bind "$f" "/proc/sys/${kv%%=*}"
done
# Every packet stays on this machine: out of the node only to its own network. In
# mangle POSTROUTING, and not in filter OUTPUT, where a packet to a ClusterIP or to
# the engine's DNS still names eth0.
net="$(ip -4 route show dev eth0 scope link | cut -d' ' -f1 | head -n1)"
iptables -I FORWARD -o eth0 ! -d "$net" -m comment --comment "no egress" -j REJECT
iptables -t mangle -A POSTROUTING -o eth0 ! -d "$net" -m comment --comment "no egress" -j DROP
