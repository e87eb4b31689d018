package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Get finds the Render, and no target.
func (c oneRender) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	render, ok := object.(*v1alpha1.DynamicConfigRender)
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	c.render.DeepCopyInto(render)
	return nil
}

// server is an API server of which only statuses are wanted.
type server struct {
	client.Client
	statuses *statuses
}

func (s server) Status() client.SubResourceWriter { return s.statuses }

// statuses are taken, or the API server is away.
type statuses struct {
	client.SubResourceWriter
	away             bool
	refused, written int
}

func (s *statuses) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	if s.away {
		s.refused++
		return errors.New("connection refused")
	}
	s.written++
	return nil
}

// asked is a hub that counts how often it is asked again.
type asked struct {
	Upstream
	times int
}

func (a *asked) Ask(*fleetv1.RenderSpec)    { a.times++ }
func (a *asked) Upsert(*fleetv1.RenderSpec) {}

// The API server goes: a target is not written, and no status says so. The status is
// tried again and again, the hub is asked at the moment when that is due, and the log has
// one line. Once the server is back there is nothing more to do.
func TestReconcile_AsksTheHubWhenDueAlsoWhileNothingCanBeReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		render, hub, told := testRender(), &asked{}, &statuses{away: true}
		r := &Reconciler{
			cache: oneRender{render: render}, client: server{statuses: told}, upstream: hub,
			entries: *newEntries(), recorder: events.NewFakeRecorder(10),
		}
		known, cause := r.entries.of(testKey), errors.New("connection refused")
		for range 5 {
			known.fail(cause, "")
		}
		known.verdict = unapplied(deliverAnswer(""), cause)
		due := known.failure.retryAt
		var lines []string
		ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		look := func() time.Duration {
			t.Helper()
			result, err := r.Reconcile(ctx, ctrl.Request{NamespacedName: testKey})
			if err != nil {
				t.Fatalf("with an error the controller heeds no delay: %v", err)
			}
			return result.RequeueAfter
		}

		for again := look(); hub.times == 0; again = look() {
			if again <= 0 || again > time.Until(due) {
				t.Fatalf("looked at again after %s, and the hub is to be asked in %s", again, time.Until(due))
			}
			<-time.After(again)
		}
		if !time.Now().Equal(due) || told.refused < 4 || known.verdict == nil {
			t.Errorf("asked %s late; the report was tried %d times and is %v", time.Since(due), told.refused, known.verdict)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], cause.Error()) {
			t.Errorf("want one line with the cause, got %q", lines)
		}
		if again := look(); again <= 0 || again > retryMax || hub.times != 1 {
			t.Errorf("looked at again after %s, and the hub was asked %d times", again, hub.times)
		}
		told.away = false
		if again := look(); again != 0 || told.written != 1 || known.verdict != nil || known.unwritten != 0 {
			t.Errorf("%d statuses were written, looked at again after %s", told.written, again)
		}
	})
}
