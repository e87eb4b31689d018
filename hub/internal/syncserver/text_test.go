package syncserver_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// parseSpec reads "namespace/name@generation [have=content] [sync=value] [pad=bytes]".
func parseSpec(line string) *fleetv1.RenderSpec {
	fields := strings.Fields(line)
	name, generation, _ := strings.Cut(fields[0], "@")
	namespace, name, _ := strings.Cut(name, "/")
	spec := &fleetv1.RenderSpec{Ref: &fleetv1.RenderRef{Namespace: namespace, Name: name, Uid: "uid-" + name}}
	spec.Generation, _ = strconv.ParseInt(generation, 10, 64)
	for _, field := range fields[1:] {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "have":
			spec.HaveContentId = []byte(value)
		case "sync":
			spec.SyncRequestedAt = value
		case "pad":
			size, _ := strconv.Atoi(value)
			spec.Key = strings.Repeat("k", size)
		}
	}
	return spec
}

func idOf(s *fleetv1.RenderSpec) fleet.ID {
	return fleet.ID{Namespace: s.GetRef().GetNamespace(), Name: s.GetRef().GetName()}
}

// show is a frame from the hub as one line.
func show(frame *fleetv1.SessionResponse) string {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionResponse_Welcome:
		w := f.Welcome
		return fmt.Sprintf("welcome protocol=%d hub=%s epoch=%d heartbeat=%s roots=%d",
			w.GetProtocolVersion(), w.GetHub(), w.GetEpoch(), w.GetHeartbeatInterval().AsDuration(), len(w.GetTrustBundleDer()))
	case *fleetv1.SessionResponse_Deliver:
		d := f.Deliver
		return fmt.Sprintf("deliver nonce=%d %s content=%s version=%s keys=%s%s", d.GetNonce(), about(d.GetRef(), d.GetGeneration()),
			d.GetContentId(), d.GetSourceVersion(), strings.Join(slices.Sorted(maps.Keys(d.GetData())), ","), echo(d.GetHandledSync()))
	case *fleetv1.SessionResponse_Current:
		c := f.Current
		return fmt.Sprintf("current %s content=%s version=%s%s", about(c.GetRef(), c.GetGeneration()), c.GetContentId(), c.GetSourceVersion(), echo(c.GetHandledSync()))
	case *fleetv1.SessionResponse_Refusal:
		r := f.Refusal
		return fmt.Sprintf("refusal %s %s %s=%s %q%s", about(r.GetRef(), r.GetGeneration()), r.GetReadyReason(),
			r.GetCauseCondition(), r.GetCauseReason(), r.GetMessage(), echo(r.GetHandledSync()))
	case *fleetv1.SessionResponse_Drain:
		return fmt.Sprintf("drain %s window=%s", f.Drain.GetReason(), f.Drain.GetWindow().AsDuration())
	}
	return fmt.Sprintf("%T", frame.GetFrame())
}

func about(ref *fleetv1.RenderRef, generation int64) string {
	return fmt.Sprintf("%s/%s@%d uid=%s", ref.GetNamespace(), ref.GetName(), generation, ref.GetUid())
}

func echo(handled string) string {
	if handled == "" {
		return ""
	}
	return " sync=" + handled
}
