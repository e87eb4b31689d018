package spoke_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// faults stands between the agent and its real API server, and answers writes of
// targets in its place while it is told to.
type faults struct {
	answer  atomic.Pointer[metav1.Status] // nil: the API server answers
	writes  atomic.Int64                  // of targets, answered by either
	refused atomic.Int64                  // answered here
	statusW atomic.Int64                  // writes of a Render's status, see isAnswer
}

func (s *faults) wrap(f *fixture) {
	f.config.REST = rest.CopyConfig(f.config.REST)
	f.config.REST.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if isAnswer(f, request) {
				s.statusW.Add(1)
			}
			if request.Method != http.MethodPatch || !strings.Contains(request.URL.Path, "/secrets/target") {
				return next.RoundTrip(request)
			}
			s.writes.Add(1)
			status := s.answer.Load()
			if status == nil {
				return next.RoundTrip(request)
			}
			s.refused.Add(1)
			return respond(request, status)
		})
	})
}

// isAnswer says whether a request writes the status of a Render that had an answer. One
// that waits for its first answer for a second says so: on a busy machine that is one
// write more.
func isAnswer(f *fixture, request *http.Request) bool {
	if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/dynamicconfigrenders/") {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		f.Error(err)
		return false
	}
	text, err := io.ReadAll(body)
	if err != nil {
		f.Error(err)
	}
	return !bytes.Contains(text, []byte(`"reason":"`+v1alpha1.ReasonPending+`"`))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func respond(request *http.Request, status *metav1.Status) (*http.Response, error) {
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	text, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: int(status.Code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text)), Request: request,
	}, nil
}

func TestRun_AStormOfRefusalsIsReportedLeavesTheTargetAndEndsByItself(t *testing.T) {
	const canary = "canary-b7e1"
	for name, status := range map[string]metav1.Status{
		"409 conflicts":         {Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: canary},
		"429 too many requests": {Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: canary},
		"500 internal errors":   {Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: canary},
	} {
		t.Run(name, func(t *testing.T) {
			storm := &faults{}
			f := newFixture(t, storm.wrap)
			f.store.Set("doc", "a", "1")
			r := f.render("pg")
			f.settled(r, 1)

			began := time.Now()
			storm.answer.Store(&status)
			f.store.Set("doc", "a", "2")
			f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed)
			failed := f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRenderFailed)
			if text := *failed.Status.LastError; !strings.Contains(text, string(status.Reason)) || strings.Contains(text, canary) {
				t.Errorf("want the server's reason and not its words, got %q", text)
			}
			// It is tried again half a second after a failure at the earliest.
			if tries := f.store.Delivered() - 1; tries > 1+int(time.Since(began)/(500*time.Millisecond)) {
				t.Errorf("the first failure was tried %d times within %s", tries, time.Since(began))
			}
			f.holds("target", "a", "1")
			f.Eventually(func() int { return f.store.Delivered() }).Should(gomega.BeNumerically(">=", 3), "it is tried again")
			f.holds("target", "a", "1")

			storm.answer.Store(nil)
			f.holds("target", "a", "2")
			f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
			if strings.Contains(f.logs.String(), canary) {
				t.Error("the server's words are in the log")
			}
		})
	}
}

func TestRun_WhatMovesNotCostsNothingAndAChangeCostsOneWrite(t *testing.T) {
	counts := &faults{}
	f := newFixture(t, counts.wrap)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	if writes, statuses := counts.writes.Load(), counts.statusW.Load(); writes != 1 || statuses != 1 {
		t.Errorf("a new Render cost %d writes of its target and %d of its status, want one each", writes, statuses)
	}
	f.store.Set("doc", "a", "2")
	f.holds("target", "a", "2")
	f.Eventually(func() int { return len(f.store.Results()) }).Should(gomega.Equal(2))
	other := f.render("other", into("other"))
	f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if writes := counts.writes.Load(); writes != 2 {
		t.Errorf("a change cost %d writes, want one", writes-1)
	}
}

// A queue that is shut down while answers fill it must let its workers go.
func TestRun_AnAgentThatStopsAtWorkEnds(t *testing.T) {
	const n, stops = 100, 8
	f := newFixture(t)
	f.store.Set("doc", "a", "1")
	var all []*v1alpha1.DynamicConfigRender
	for i := range n {
		all = append(all, f.render(fmt.Sprint("r-", i), into(fmt.Sprint("target-", i))))
	}
	for _, r := range all {
		f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	}
	for i := range stops {
		f.Eventually(func() bool { return f.store.Spec(f.namespace, "r-0") != nil }).Should(gomega.BeTrue())
		f.store.Set("doc", "a", "1") // every Render is answered again, and that is little work
		last := f.render(fmt.Sprint("last-", i), into(fmt.Sprint("target-last-", i)))
		f.status(last, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
		f.stop() // fails the test where it takes longer than is granted
		f.start()
	}
}

func TestRun_AtRestNothingIsWritten(t *testing.T) {
	const n = 100
	counts := &faults{}
	f := newFixture(t, counts.wrap)
	f.store.Set("doc", "a", "1")
	var all []*v1alpha1.DynamicConfigRender
	for i := range n {
		all = append(all, f.render(fmt.Sprint("r-", i), into(fmt.Sprint("target-", i))))
	}
	for _, r := range all {
		f.status(r, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	}
	before := counts.writes.Load() + counts.statusW.Load()
	if before != 2*n {
		t.Errorf("%d new Renders cost %d writes, want one of each target and status", n, before)
	}

	known := func() bool {
		return !slices.ContainsFunc(all, func(r *v1alpha1.DynamicConfigRender) bool { return f.store.Spec(f.namespace, r.Name) == nil })
	}
	f.hub.Restart(t)
	f.Eventually(known).Should(gomega.BeTrue())
	f.stop()
	f.start()
	f.Eventually(known).Should(gomega.BeTrue())
	f.store.Set("doc", "a", "1") // every Render is answered again
	last := f.render("last", into("target-last"))
	f.status(last, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if writes := counts.writes.Load() + counts.statusW.Load() - before - 2; writes != 0 {
		t.Errorf("%d writes that changed nothing", writes)
	}
}

func TestRun_AWriterThatFightsIsBackedOffAndReported(t *testing.T) {
	counts := &faults{}
	f := newFixture(t, counts.wrap)
	f.store.Set("doc", "a", "1")
	r := f.render("pg")
	f.settled(r, 1)
	refused := &v1alpha1.DynamicConfigRender{}
	f.Eventually(func(g gomega.Gomega) {
		if s := f.secret("target"); string(s.Data["a"]) == "1" {
			s.Data["a"] = []byte("theirs")
			_ = cluster.Client.Update(t.Context(), s, client.FieldOwner("fighter")) // again when it lost
		}
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(r), refused)).To(gomega.Succeed())
		g.Expect(refused.Status.LastError).NotTo(gomega.BeNil())
	}).Should(gomega.Succeed())
	f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetConflict)
	f.status(r, v1alpha1.ConditionStalled, v1alpha1.ReasonTargetConflict)
	if text := *refused.Status.LastError; !strings.Contains(text, "fighter") {
		t.Errorf("want the writer named, got %q", text)
	}
	fought := counts.writes.Load()
	if fought > 7 {
		t.Errorf("fought with %d writes", fought)
	}
	for range 3 { // who goes on alone gets no answer
		s := f.secret("target")
		s.Data["theirs"] = append(s.Data["theirs"], 'x')
		f.must(cluster.Client.Update(t.Context(), s, client.FieldOwner("fighter")))
	}
	other := f.render("other", into("other"))
	f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	if n := counts.writes.Load(); n != fought {
		t.Errorf("fought on with %d writes", n-fought)
	}
}

func TestRun_APolicyThatRewritesOurLabelIsReportedAndNotFought(t *testing.T) {
	f := newFixture(t)
	f.mutate(`[JSONPatch{op: "replace", path: "/metadata/labels/app.kubernetes.io~1managed-by", value: "platform"}]`,
		func(probe *corev1.ConfigMap) bool { return probe.Labels[v1alpha1.LabelManagedBy] == "platform" })
	f.store.Set("doc", "a", "1")
	r := f.render("app", func(r *v1alpha1.DynamicConfigRender) {
		r.Spec.Target.Secret, r.Spec.Target.ConfigMap = "", "target"
	})
	conflict := f.status(r, v1alpha1.ConditionApplied, v1alpha1.ReasonTargetConflict)
	if !strings.Contains(*conflict.Status.LastError, v1alpha1.LabelManagedBy) {
		t.Errorf("want the label named: %s", *conflict.Status.LastError)
	}
	for _, name := range []string{"b", "c", "d"} {
		other := f.render(name, into(name))
		f.status(other, v1alpha1.ConditionReady, v1alpha1.ReasonRendered)
	}
	if n := f.store.Delivered(); n > 5 {
		t.Errorf("want one delivery for each Render, got %d for 4", n)
	}
}
