package replicas_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/hub/internal/replicas"
)

func TestExcess(t *testing.T) {
	for name, tc := range map[string]struct {
		mine int
		all  []int
		want int
	}{
		"a replica that is alone":              {1000, []int{1000}, 0},
		"nothing anywhere":                     {0, []int{0, 0}, 0},
		"the share":                            {500, []int{500, 500}, 0},
		"a fifth and ten more":                 {610, []int{610, 390}, 0},
		"one more than that":                   {611, []int{611, 389}, 61},
		"all, beside one that began":           {1000, []int{1000, 0}, 100},
		"few sessions are not worth it":        {20, []int{20, 0}, 0},
		"a few more are moved one by one":      {27, []int{27, 0}, 2},
		"less than the share":                  {0, []int{1000, 0}, 0},
		"half, beside the third that began":    {500, []int{500, 500, 0}, 50},
		"two of three hold nearly all of many": {2000, []int{2000, 1900, 0}, 200},
	} {
		if got := replicas.Excess(tc.mine, tc.all); got != tc.want {
			t.Errorf("%s: want %d asked to move, got %d", name, tc.want, got)
		}
	}
}

func TestExcess_LeavesTheShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 5000), 1, 8).Draw(t, "all")
		mine, sum := all[0], 0
		for _, n := range all {
			sum += n
		}
		n := replicas.Excess(mine, all)
		switch share := float64(sum) / float64(len(all)); {
		case n < 0:
			t.Fatalf("%d", n)
		case n > 0 && float64(mine-n) < share:
			t.Fatalf("%d of %d leave less than the share, %.1f", n, mine, share)
		case n == 0 && float64(mine) > 1.2*share+12: // with what is rounded
			t.Fatalf("nothing moves of %d at a share of %.1f", mine, share)
		}
		slices.Sort(all)
		if again := replicas.Excess(mine, all); again != n {
			t.Fatalf("the order counts: %d and %d", n, again)
		}
	})
}

// simulate has replicas decide at the same moments, and leads each session that moves to
// one of them by chance, until nothing moves.
func simulate(t *testing.T, random *rand.Rand, held []int) (rounds, moved int) {
	t.Helper()
	for ; ; rounds++ {
		before, leaving := slices.Clone(held), 0
		for i := range held {
			n := replicas.Excess(before[i], before)
			held[i] -= n
			leaving += n
		}
		if leaving == 0 {
			return rounds, moved
		}
		if rounds > 100 {
			t.Fatalf("still moving: %v", held)
		}
		moved += leaving
		for range leaving {
			held[random.IntN(len(held))]++
		}
	}
}

// Sessions spread by chance alone, within the rounds that a Balancer has, and then rest.
func TestExcess_Converges(t *testing.T) {
	const rounds = 20
	for name, begin := range map[string][]int{
		"one of two began anew":           {1000, 0},
		"one of two, of few sessions":     {100, 0},
		"one of two, of very many":        {4000, 0},
		"one of three":                    {750, 750, 0},
		"two of three":                    {2000, 0, 0},
		"one of three, unevenly left":     {1200, 300, 0},
		"one of five":                     {500, 500, 500, 500, 0},
		"a fourth is added to three":      {700, 650, 720, 0},
		"one of ten is hardly worth much": {200, 200, 200, 200, 200, 200, 200, 200, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sessions, most, mostMoved := 0, 0, 0
			for _, n := range begin {
				sessions += n
			}
			for seed := range uint64(200) {
				held := slices.Clone(begin)
				took, moved := simulate(t, rand.New(rand.NewPCG(seed, 7)), held)
				most, mostMoved = max(most, took), max(mostMoved, moved)
				share := sessions / len(held)
				if took > rounds || slices.Max(held) > share+share/5+12 {
					t.Fatalf("seed %d: %v after %d rounds", seed, held, took)
				}
			}
			t.Logf("at most %d rounds and %d moves of %d sessions", most, mostMoved, sessions)
			if mostMoved > 2*sessions {
				t.Errorf("%d moves of %d sessions: they swing", mostMoved, sessions)
			}
		})
	}
}

// balanced is a Balancer of replica b-1 beside b-2, of which only their Leases are there.
func balanced(t *testing.T, c *clock, held map[string]int) (b *replicas.Balancer, asked *[]int) {
	t.Helper()
	asked = new([]int)
	return &replicas.Balancer{
		Replica: "b-1", Interval: replicas.DefaultBalanceInterval,
		Watch: replicas.NewWatch(leases.Leases(metav1.NamespaceDefault), c.now),
		Held:  func(context.Context) (map[string]int, error) { return held, nil },
		Move: func(n int, window time.Duration) int {
			if window != 10*time.Second {
				t.Errorf("window %s", window)
			}
			*asked = append(*asked, n)
			return n
		},
	}, asked
}

func TestBalancer_WaitsUntilTheReplicasAreTheSameAndEndsInTime(t *testing.T) {
	c := &clock{time.Now()}
	b, asked := balanced(t, c, map[string]int{"b-1": 100, "elsewhere": 900})
	processes := map[string]*replicas.Presence{"b-1": presence("b-1"), "b-2": presence("b-2")}
	look := func(what string, want int, renewing ...string) {
		t.Helper()
		for _, replica := range renewing {
			renew(t, replica, processes[replica])
		}
		c.Time = c.Add(b.Interval)
		if err := b.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(*asked) != want {
			t.Errorf("%s: asked %d times, want %d", what, len(*asked), want)
		}
	}
	look("who renews is not known", 0, "b-1", "b-2")
	look("both live, which is new", 0, "b-1", "b-2")
	look("they still do", 1, "b-1", "b-2")
	look("what moved does not show yet", 2, "b-1", "b-2")
	look("one renewed not long ago", 3, "b-1")
	look("it is gone", 3, "b-1")
	look("it is back, which is new", 3, "b-1", "b-2")
	for n := range 20 {
		look("it still is", 4+n, "b-1", "b-2")
	}
	look("that was often enough", 23, "b-1", "b-2")
	processes["b-2"] = presence("b-2")
	look("another process of the name is new", 23, "b-1", "b-2")
	look("and is still there", 24, "b-1", "b-2")
	look("without a Lease of its own nothing moves", 25, "b-2")
	look("without a Lease of its own nothing moves", 25, "b-2")
	look("without a Lease of its own nothing moves", 25, "b-2")
	if got := b.Moved(); got != 250 {
		t.Errorf("%d sessions moved", got)
	}
}
