package web

import (
	"strconv"
	"testing"
	"time"
)

// Sessions are bounded: what is over goes first, then what would end first.
func TestVisits_AreBounded(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, first := range map[string]time.Duration{"with one that is over": -time.Second, "with none that is over": time.Second} {
		t.Run(name, func(t *testing.T) {
			v := &visits{}
			for i := range maxSessions {
				v.add(hashOf("session", strconv.Itoa(i)), &visit{ends: now.Add(first + time.Duration(i)*time.Hour)}, now)
			}
			newest := hashOf("session", "newest")
			v.add(newest, &visit{ends: now.Add(time.Minute)}, now)
			if len(v.byHash) != maxSessions {
				t.Errorf("%d sessions", len(v.byHash))
			}
			if v.get(newest, now) == nil || v.get(hashOf("session", "1"), now) == nil || v.get(hashOf("session", "0"), now) != nil {
				t.Error("another one went than that which ends first")
			}
		})
	}
	if hashOf("session", "a") == hashOf("token", "a") {
		t.Error("a token counts as the ID of a session")
	}
}

func TestExpiry(t *testing.T) {
	for token, want := range map[string]int64{
		"e30.eyJleHAiOjE4OTM0NTYwMDB9.sig": 1893456000, // {"exp":1893456000}
		"e30.e30.sig":                      0,
		"e30.eyJleHAiOi0xfQ.sig":           0, // {"exp":-1}
		"e30.!.sig":                        0,
		"opaque":                           0,
		"":                                 0,
	} {
		got := expiry(token)
		if got.IsZero() != (want == 0) || want != 0 && got.Unix() != want {
			t.Errorf("%q: %v", token, got)
		}
	}
}
