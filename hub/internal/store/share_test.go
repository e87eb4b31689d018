package store_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/hub/internal/store"
)

func TestShare_TheMostUrgentIsNextUntilTheOldestWasPassedOverTooOften(t *testing.T) {
	t.Parallel()
	const none = ^uint64(0) // nobody is next
	cases := map[string]struct {
		lines [store.Priorities][]uint64
		want  []uint64
	}{
		"nobody waits":                           {want: []uint64{none}},
		"one alone is next":                      {[store.Priorities][]uint64{{}, {}, {7}}, []uint64{7, none}},
		"the most urgent is before the oldest":   {[store.Priorities][]uint64{{9}, {5, 8}, {1}}, []uint64{9, 5, 8, 1, none}},
		"of those as urgent the first that came": {[store.Priorities][]uint64{{1, 2, 3, 4, 5, 6, 7}}, []uint64{1, 2, 3, 4, 5, 6, 7}},
		"every fifth is the oldest": {
			[store.Priorities][]uint64{{11, 12, 13, 14, 15, 16, 17, 18, 19}, {}, {1, 2, 3}},
			[]uint64{11, 12, 13, 14, 1, 15, 16, 17, 18, 2, 19, 3, none},
		},
		"the oldest may be of any priority": {
			[store.Priorities][]uint64{{11, 12, 13, 14, 15, 16, 17, 18}, {1}, {2}},
			[]uint64{11, 12, 13, 14, 1, 15, 16, 17, 18, 2, none},
		},
		"who passes before nobody older costs nobody": {
			[store.Priorities][]uint64{{1, 2, 3, 4, 11, 12, 13, 14, 15}, {}, {5}},
			[]uint64{1, 2, 3, 4, 11, 12, 13, 14, 5, 15, none},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s store.Share
			var got []uint64
			for range tc.want {
				var fronts store.Fronts
				for p, line := range tc.lines {
					if len(line) > 0 {
						fronts[p] = line[0]
					}
				}
				next, ok := s.Next(fronts)
				if again, _ := s.Next(fronts); again != next {
					t.Fatal("to ask changes the answer")
				}
				if !ok {
					got = append(got, none)
					continue
				}
				got = append(got, fronts[next])
				s.Passed(fronts[next], fronts)
				tc.lines[next] = tc.lines[next][1:]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("in this order (-want +got):\n%s", diff)
			}
		})
	}
}
