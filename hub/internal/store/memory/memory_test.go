package memory_test

import (
	"errors"
	"testing"

	"dynamic-config.rs/fleet/hub/internal/policy"
	"dynamic-config.rs/fleet/hub/internal/store/memory"
	"dynamic-config.rs/fleet/hub/internal/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(*testing.T) storetest.Harness {
		s := memory.New()
		return storetest.Harness{
			Reader:  s,
			Key:     func(name string) policy.Key { return policy.Key("app/" + name) },
			Put:     func(_ *testing.T, key policy.Key, text string) { s.Put(key, text) },
			Delete:  func(_ *testing.T, key policy.Key) { s.Delete(key) },
			Awkward: []policy.Key{"a b/c", "café/数据", "a&b=c;d/+"},
		}
	})
}

func TestStore_FailsWhenTold(t *testing.T) {
	t.Parallel()
	s := memory.New()
	s.Put("a", "text")
	broken := errors.New("broken")
	s.Fail(broken)
	if _, err := s.Fetch(t.Context(), "a"); !errors.Is(err, broken) {
		t.Errorf("Fetch: %v", err)
	}
	if _, err := s.Watch(t.Context(), "a", "1"); !errors.Is(err, broken) {
		t.Errorf("Watch: %v", err)
	}
	s.Fail(nil)
	if _, err := s.Fetch(t.Context(), "a"); err != nil {
		t.Errorf("Fetch after healing: %v", err)
	}
	if got := s.Fetches("a"); got != 2 {
		t.Errorf("%d fetches, want 2", got)
	}
}
