package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/registry"
)

// clustersPerPage is how many clusters one page shows.
const clustersPerPage = 100

// ClustersView is the page of clusters.
type ClustersView struct {
	Scope Scope
	Fleet Counts
	// Connected of Accepted clusters hold a session, with any replica.
	Connected, Accepted int
	// Name that the rows are narrowed by; empty for all.
	Name  string
	Rows  []ClusterRow
	Pages Pages
}

// Scope is which part of the fleet this replica knows in detail.
type Scope struct {
	Replica string
	// Here is how many clusters hold their session with this replica; Elsewhere are the
	// other replicas, and how many do with each; Nowhere have none.
	Here      int
	Elsewhere []Elsewhere
	Nowhere   int
}

// Elsewhere is another replica.
type Elsewhere struct {
	Replica  string
	Clusters int
}

// Counts are numbers of Renders by state.
type Counts struct{ Total, Ready, Failed, Waiting int }

// ClusterRow is one cluster.
type ClusterRow struct {
	Name, Link string
	Finding
	Since Moment
	// Replica that holds the session, or held it last; Here when it is this one.
	Replica   string
	Here      bool
	Connected Moment
	Agent     string
	// Counts by the cluster's status; Counted when there are any.
	Counts
	Counted bool
	// What follows is known of sessions with this replica alone.
	Unacked                int
	OldestUnacked, Applied Moment
	CertificateEnds        Moment
	// CertificateSoon: less than a quarter of a certificate's life is left. An agent has
	// another one by then, and a session with it.
	CertificateSoon bool
}

// viewClusters makes the page of clusters.
func viewClusters(s *State, name string, page int) ClustersView {
	view := ClustersView{Scope: scopeOf(s), Name: name}
	var rows []ClusterRow
	for i := range s.Clusters {
		row := clusterRow(s, &s.Clusters[i])
		view.Fleet = view.Fleet.add(row.Counts)
		if s.Clusters[i].Spec.Accepted {
			view.Accepted++
		}
		if registry.Connected(&s.Clusters[i]) {
			view.Connected++
		}
		if strings.Contains(row.Name, name) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b ClusterRow) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	view.Rows, view.Pages = paged(rows, page, clustersPerPage, "/", url.Values{"name": {name}})
	return view
}

// rank has clusters with a problem come first.
func rank(r ClusterRow) int {
	switch {
	case r.Tone == bad:
		return 0
	case r.Failed > 0 || r.CertificateSoon:
		return 1
	case r.Tone == wait:
		return 2
	}
	return 3
}

func clusterRow(s *State, c *v1alpha1.SpokeCluster) ClusterRow {
	state, since := conditionsOf(c.Status.Conditions, "connected", "not connected")
	switch state.Reason {
	case v1alpha1.ReasonSuspended:
		state.Word, state.Tone = "suspended", off
	case v1alpha1.ReasonNotAccepted:
		state.Word, state.Tone = "not accepted", off
	case v1alpha1.ReasonAgentsAlternate:
		state.Word = "contested"
	case v1alpha1.ReasonKeysUnknown:
		state.Word = "connected, keys unknown"
	}
	row := ClusterRow{
		Name: c.Name, Link: link("/renders", url.Values{"cluster": {c.Name}}, 1),
		Finding: state, Since: ago(since, s.Now),
	}
	if held := c.Status.Session; held != nil {
		row.Replica, row.Agent = plain(held.Hub), plain(held.AgentVersion)
		if held.ConnectedAt != nil && registry.Connected(c) {
			row.Connected = ago(held.ConnectedAt.Time, s.Now)
		}
	}
	if n := c.Status.Renders; n != nil {
		row.Counted = true
		row.Counts = Counts{Total: int(n.Total), Ready: int(n.Ready), Failed: int(n.Failed), Waiting: int(n.Total - n.Ready - n.Failed)}
	}
	row.addSession(s)
	return row
}

// addSession adds what this replica knows of the session that it holds.
func (r *ClusterRow) addSession(s *State) {
	session, here := s.Sessions[r.Name]
	if !here {
		return
	}
	r.Here, r.Replica = true, s.Replica
	r.Unacked = session.Unacked
	r.OldestUnacked = ago(session.OldestUnacked, s.Now)
	r.Applied = ago(session.Applied, s.Now)
	r.CertificateEnds = ahead(session.CertificateEnds, s.Now)
	r.CertificateSoon = !session.CertificateEnds.IsZero() && session.CertificateEnds.Sub(s.Now) < s.CertificateLifetime/4
}

func scopeOf(s *State) Scope {
	scope := Scope{Replica: s.Replica}
	others := map[string]int{}
	for i := range s.Clusters {
		c := &s.Clusters[i]
		_, here := s.Sessions[c.Name]
		switch {
		case here:
			scope.Here++
		case registry.Connected(c) && c.Status.Session != nil:
			others[plain(c.Status.Session.Hub)]++
		default:
			scope.Nowhere++
		}
	}
	for replica, n := range others {
		scope.Elsewhere = append(scope.Elsewhere, Elsewhere{replica, n})
	}
	slices.SortFunc(scope.Elsewhere, func(a, b Elsewhere) int { return strings.Compare(a.Replica, b.Replica) })
	return scope
}

func (c Counts) add(other Counts) Counts {
	return Counts{c.Total + other.Total, c.Ready + other.Ready, c.Failed + other.Failed, c.Waiting + other.Waiting}
}
