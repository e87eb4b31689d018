package web_test

import (
	"testing"
	"testing/synctest"
	"time"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/web"
)

// counted counts how often the Renders of a cluster are gone through.
type counted struct {
	*fleet.Fleet
	walks int
}

func (c *counted) Status(cluster string, keep func(*fleet.RenderStatus) bool) (fleet.Status, bool) {
	c.walks++
	return c.Fleet.Status(cluster, keep)
}

// However many people look at a cluster, its Renders are gone through once a second.
func TestReader_RendersOfAClusterAreGoneThroughOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fleet.New(fleet.Config{})
		session, err := f.Connect("prod", 1, "a")
		if err != nil {
			t.Fatal(err)
		}
		session.Replace([]fleet.Spec{{ID: fleet.ID{Namespace: "shop", Name: "a"}, UID: "u", Generation: 1}})
		sessions := &counted{Fleet: f}
		r := &web.Reader{Sessions: sessions}
		for range 100 {
			if got := len(r.Renders("prod")); got != 1 {
				t.Fatalf("%d Renders", got)
			}
		}
		if sessions.walks != 1 {
			t.Errorf("gone through %d times", sessions.walks)
		}
		session.Replace(nil)
		<-time.After(time.Second)
		if got := len(r.Renders("prod")); got != 0 || sessions.walks != 2 {
			t.Errorf("a second later: %d Renders, gone through %d times", got, sessions.walks)
		}
		if got := r.Renders("none"); got != nil {
			t.Errorf("of a cluster without a session: %v", got)
		}
	})
}
