package hubtest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// Store answers Renders from documents, as a hub does.
type Store struct {
	mu        sync.Mutex // guards what follows
	documents map[string]map[string][]byte
	refusals  map[string]*fleetv1.Refusal
	specs     map[string]*fleetv1.RenderSpec
	session   *Session
	nonce     uint64
	results   []*fleetv1.DeliveryResult
	delivered int
	trace     string // of deliveries
}

// Serve makes a Store that answers the sessions of a hub until the test ends.
func Serve(tb testing.TB, h *Hub) *Store {
	tb.Helper()
	s := &Store{
		documents: map[string]map[string][]byte{}, refusals: map[string]*fleetv1.Refusal{},
		specs: map[string]*fleetv1.RenderSpec{},
	}
	done := make(chan struct{})
	var served sync.WaitGroup
	served.Go(func() {
		for {
			select {
			case session := <-h.sessions:
				s.open(session)
				served.Go(func() { s.serve(session) })
			case <-done:
				return
			}
		}
	})
	tb.Cleanup(func() {
		close(done)
		h.server.Stop()
		served.Wait()
	})
	return s
}

// Set sets the document of a key; pairs of data key and value.
func (s *Store) Set(key string, keysAndValues ...string) {
	data := map[string][]byte{}
	for i := 0; i < len(keysAndValues); i += 2 {
		data[keysAndValues[i]] = []byte(keysAndValues[i+1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents[key] = data
	delete(s.refusals, key)
	s.answerAll(key)
}

// Trace makes deliveries parts of a span, in its W3C form.
func (s *Store) Trace(traceparent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace = traceparent
}

// Refuse refuses a key.
func (s *Store) Refuse(key string, refusal *fleetv1.Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals[key] = refusal
	s.answerAll(key)
}

// Delivered counts deliveries.
func (s *Store) Delivered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delivered
}

// Results returns the answers to deliveries so far.
func (s *Store) Results() []*fleetv1.DeliveryResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.results)
}

// Spec returns what a Render asks for last; nil when it is not known.
func (s *Store) Spec(namespace, name string) *fleetv1.RenderSpec {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.specs[namespace+"/"+name]
}

// Session returns the present session; nil for none.
func (s *Store) Session() *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session
}

func (s *Store) open(session *Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
	clear(s.specs)
}

func (s *Store) serve(session *Session) {
	for frame := range session.frames {
		s.mu.Lock()
		if s.session == session {
			s.take(frame)
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == session {
		s.session = nil
	}
}

func (s *Store) take(frame *fleetv1.SessionRequest) {
	switch f := frame.GetFrame().(type) {
	case *fleetv1.SessionRequest_Inventory:
		for _, spec := range f.Inventory.GetRenders() {
			s.upsert(spec)
		}
	case *fleetv1.SessionRequest_Upsert:
		s.upsert(f.Upsert)
	case *fleetv1.SessionRequest_Remove:
		delete(s.specs, f.Remove.GetNamespace()+"/"+f.Remove.GetName())
	case *fleetv1.SessionRequest_Result:
		s.results = append(s.results, f.Result)
	}
}

func (s *Store) upsert(spec *fleetv1.RenderSpec) {
	s.specs[spec.GetRef().GetNamespace()+"/"+spec.GetRef().GetName()] = spec
	s.answer(spec)
}

func (s *Store) answerAll(key string) {
	for _, spec := range s.specs {
		if spec.GetKey() == key {
			s.answer(spec)
		}
	}
}

func (s *Store) answer(spec *fleetv1.RenderSpec) {
	if s.session == nil || spec.GetSuspend() {
		return
	}
	if refusal := s.refusals[spec.GetKey()]; refusal != nil {
		refusal = proto.CloneOf(refusal)
		refusal.Ref, refusal.Generation, refusal.HandledSync = spec.GetRef(), spec.GetGeneration(), spec.GetSyncRequestedAt()
		s.session.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Refusal{Refusal: refusal}})
		return
	}
	data, ok := s.documents[spec.GetKey()]
	if !ok {
		return
	}
	id := ContentID(data)
	if bytes.Equal(id, spec.GetHaveContentId()) {
		s.session.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Current{Current: &fleetv1.Current{
			Ref: spec.GetRef(), Generation: spec.GetGeneration(), ContentId: id, HandledSync: spec.GetSyncRequestedAt(),
		}}})
		return
	}
	s.nonce++
	s.delivered++
	s.session.Send(&fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Deliver{Deliver: &fleetv1.Deliver{
		Nonce: s.nonce, Ref: spec.GetRef(), Generation: spec.GetGeneration(), ContentId: id, Data: data,
		HandledSync: spec.GetSyncRequestedAt(), Traceparent: s.trace,
	}}})
}

// ContentID identifies content.
func ContentID(data map[string][]byte) []byte {
	mac := hmac.New(sha256.New, []byte("key of the test"))
	for _, key := range slices.Sorted(maps.Keys(data)) {
		mac.Write([]byte(key + "\x00" + string(data[key]) + "\x00"))
	}
	return mac.Sum(nil)
}
