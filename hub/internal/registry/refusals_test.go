package registry_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/hub/internal/spoketest"
)

func TestRegistry_ARefusalIsToldOfTheClusterAtMostOnceAMinute(t *testing.T) {
	issuer, stranger := spoketest.NewIssuer(t), spoketest.NewIssuer(t)
	now, recorder := time.Now(), events.NewFakeRecorder(100)
	r := newRegistry(func() time.Time { return now })
	r.Refusals = &registry.Refusals{Recorder: recorder}
	told := func() string {
		var all []string
		for len(recorder.Events) > 0 {
			all = append(all, <-recorder.Events)
		}
		return strings.Join(all, "; ")
	}
	pinned := create(t, v1alpha1.SpokeClusterSpec{Accepted: true, Keys: issuer.Keys(t)})
	joining, token := joinable(t, accepted)
	const evidence = "Warning EvidenceInvalid EvidenceInvalid: the evidence does not prove that it comes from this cluster"
	const notPinned = evidence + " (it is signed with a key that is not pinned)"
	verify := func(cluster string, from *spoketest.Issuer) { _ = r.Verify(t.Context(), cluster, proof(t, from)) }
	join := func(token string) {
		_ = r.Join(t.Context(), joining, registry.Joining{JoinToken: token, Proof: proof(t, issuer), Keys: *issuer.Keys(t)})
	}
	for _, step := range []struct {
		does string
		do   func()
		want string
	}{
		{"a good proof", func() { verify(pinned, issuer) }, ""},
		{"a stranger's proof", func() { verify(pinned, stranger) }, notPinned},
		{"a storm of them", func() {
			for range 20 {
				verify(pinned, stranger)
			}
		}, ""},
		{"a minute later", func() { now = now.Add(time.Minute); verify(pinned, stranger) }, notPinned},
		{"a name that is none", func() { verify("nobody", stranger) }, ""},
		{"what comes before a join", func() { verify(joining, issuer) }, ""},
		{"a wrong join token", func() { join("a-token-of-the-peer") }, evidence + " (the join token is another, or none is set)"},
		{"a join", func() { join(token); verify(joining, issuer) }, ""},
	} {
		step.do()
		if got := told(); got != step.want {
			t.Errorf("%s: told %q, want %q", step.does, got, step.want)
		}
	}
}
