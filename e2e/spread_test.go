package e2e_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/e2e/internal/stage"
)

// After a crash all sessions are with the replica that was left. When the other is back
// they spread, and nothing is sent again.
func TestReplicas_SessionsSpreadAgainAfterACrash(t *testing.T) {
	const spokes = 100
	putConsul(t, "spread/app.json", `{"colour":"red"}`)
	consulClass(t, "spread", "spread/", countRequests(t))
	fleet.Hub.Kill() // to run with other flags
	all := scale(t, 2, "--balance-interval=1s")
	defer func() {
		before := epochs(t)
		fleet.Hub.Kill()
		scale(t, 1)
		reconnected(t, before)
	}()
	c := join(t, "spread", spokes, nil, wants("one", "spread", "spread/app.json"))
	c.areCurrent(t)
	g, sum := gomega.NewWithT(t), spokes+len(fleet.Spokes)
	sessions := func(r *stage.Replica) int { return metric(t, r, "dynamicconfig_hub_sessions") }
	g.Eventually(func() int { return sessions(all[0]) + sessions(all[1]) }).WithTimeout(patience).Should(gomega.Equal(sum))
	before := [2]int{sessions(all[0]), sessions(all[1])}

	all[1].Kill()
	g.Eventually(func() int { return sessions(all[0]) }).WithTimeout(patience).Should(gomega.Equal(sum))
	c.areCurrent(t)
	start(t, all[1])
	began := time.Now()
	most := sum/2 + sum/10 + 10
	g.Eventually(func() bool { return sessions(all[0]) <= most && sessions(all[0])+sessions(all[1]) == sum }).WithTimeout(patience).Should(gomega.BeTrue())
	c.areCurrent(t)
	t.Logf("of %d sessions the two replicas held %d and %d, after the crash %d and 0, and %s later %d and %d; %d were asked to move",
		sum, before[0], before[1], sum, time.Since(began).Round(time.Second), sessions(all[0]), sessions(all[1]), metric(t, all[0], "dynamicconfig_hub_sessions_moved_total"))
	if sent := c.tally.Counts().Deliveries; sent != c.total {
		t.Errorf("%d documents were sent, want each once: %d", sent, c.total)
	}
}
