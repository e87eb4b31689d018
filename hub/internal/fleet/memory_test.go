package fleet_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// What a session told is compared with what comes next; it keeps no document for that.
func TestSession_KeepsNoDocumentThatItDelivered(t *testing.T) {
	for name, code := range map[string]fleet.Code{"applied": fleet.Applied, "failed": fleet.Failed} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(fleet.Config{})
			s := connect(t, f, 1, "agent")
			s.Upsert(spec(web, 1, ""))
			delivered := deliverOne(t, f, s, code)
			gomega.NewWithT(t).Eventually(func() bool {
				runtime.GC()
				return delivered.Value() == nil
			}).WithTimeout(time.Minute).Should(gomega.BeTrue(), "the content is still held")
			if f.Deliver("c", web, answer(1, content("id", 8))); code == fleet.Applied && len(drain(t, s)) != 0 {
				t.Error("the same content was told again")
			}
			runtime.KeepAlive(s)
		})
	}
}

func deliverOne(t *testing.T, f *fleet.Fleet, s *fleet.Session, code fleet.Code) weak.Pointer[fleet.Content] {
	t.Helper()
	c := content("id", 1<<20)
	f.Deliver("c", web, answer(1, c))
	frame, err := s.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !s.Ack(fleet.Result{ID: web, Nonce: frame.Nonce, Code: code}) {
		t.Fatal("the delivery is not known")
	}
	return weak.Make(c)
}
