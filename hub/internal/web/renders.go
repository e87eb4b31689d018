package web

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"dynamic-config.rs/fleet/hub/internal/fleet"
	"dynamic-config.rs/fleet/hub/internal/registry"
	"dynamic-config.rs/fleet/internal/reasons"
)

// rendersPerPage is how many Renders one page shows.
const rendersPerPage = 100

// RendersView is the page of Renders: those of this replica that are not ready, or all
// of one cluster.
type RendersView struct {
	Scope Scope
	// Cluster that the page is about; empty for all.
	Cluster string
	// Missing says why the cluster's Renders are not known here; empty when they are.
	Missing string
	// Counts of the Renders that the page is about, ready ones too.
	Counts Counts
	Owners []OwnerGroup
	Pages  Pages
}

// OwnerGroup is the Renders whose state is one owner's to change.
type OwnerGroup struct {
	Owner string
	// ID names the group in the page.
	ID string
	// Nobody's are those that need nobody to do anything.
	Nobody bool
	// Total of the owner; Rows are those on this page.
	Total   int
	Reasons []ReasonCount
	Rows    []RenderRow
}

// ReasonCount is how often an owner's Renders have a reason.
type ReasonCount struct {
	Reason, Text string
	Total        int
}

// RenderRow is one Render.
type RenderRow struct {
	// ID names the row in the page.
	ID                       string
	Cluster, Namespace, Name string
	Link, Class              string
	Finding
	Since Moment
}

// one is a Render of a cluster.
type one struct {
	cluster string
	status  *fleet.RenderStatus
	Finding
}

// viewRenders makes the page of the Renders of this replica that are not ready.
func viewRenders(s *State, page int) RendersView {
	view := RendersView{Scope: scopeOf(s)}
	for name := range s.Sessions {
		session := s.Sessions[name]
		view.Counts = view.Counts.add(countsOf(&session.Status))
	}
	view.fill(s, s.notReady(), page)
	return view
}

// notReady are the Renders of this replica that are not ready, sorted.
func (s *State) notReady() []one {
	s.sorting.Do(func() {
		for name := range s.Sessions {
			s.sorted = appendAll(s.sorted, name, s.Sessions[name].Renders)
		}
		slices.SortFunc(s.sorted, compare)
	})
	return s.sorted
}

// viewCluster makes the page of all Renders of one cluster.
func viewCluster(s *State, cluster string, renders []fleet.RenderStatus, page int) RendersView {
	view := RendersView{Scope: scopeOf(s), Cluster: plain(cluster)}
	session, here := s.Sessions[cluster]
	if !here {
		view.Missing = missing(s, cluster)
		return view
	}
	view.Counts = countsOf(&session.Status)
	all := appendAll(nil, cluster, renders)
	slices.SortFunc(all, compare)
	view.fill(s, all, page)
	return view
}

// missing says where to look for a cluster that has no session here.
func missing(s *State, name string) string {
	c := s.cluster(name)
	switch {
	case c == nil:
		return "There is no SpokeCluster of this name."
	case registry.Connected(c) && c.Status.Session != nil:
		return "This cluster holds its session with replica " + plain(c.Status.Session.Hub) + ", which alone knows its Renders one by one. Ask that replica."
	}
	return "This cluster holds no session, so the hub does not know its Renders one by one. Their status is in the cluster itself."
}

func countsOf(s *fleet.Status) Counts {
	return Counts{Total: s.Total, Ready: s.Ready, Failed: s.Failed, Waiting: s.Total - s.Ready - s.Failed}
}

func appendAll(all []one, cluster string, renders []fleet.RenderStatus) []one {
	for i := range renders {
		all = append(all, one{cluster, &renders[i], stateOf(&renders[i])})
	}
	return all
}

// compare puts Renders in the order of a page.
func compare(a, b one) int {
	return cmp.Or(
		compareOwners(a.Owner, b.Owner), strings.Compare(a.Reason, b.Reason), strings.Compare(a.cluster, b.cluster),
		strings.Compare(a.status.ID.Namespace, b.status.ID.Namespace), strings.Compare(a.status.ID.Name, b.status.ID.Name),
	)
}

// fill cuts a page out of sorted Renders and groups it.
func (v *RendersView) fill(s *State, all []one, page int) {
	shown, pages := paged(all, page, rendersPerPage, "/renders", url.Values{"cluster": {v.Cluster}})
	v.Pages = pages
	v.Owners = owners(all)
	for i := range v.Owners {
		for _, r := range shown {
			if r.Owner == v.Owners[i].Owner {
				v.Owners[i].Rows = append(v.Owners[i].Rows, renderRow(s, &r))
			}
		}
	}
	v.Owners = slices.DeleteFunc(v.Owners, func(g OwnerGroup) bool { return len(g.Rows) == 0 })
}

// compareOwners puts what is nobody's problem last.
func compareOwners(a, b string) int {
	if a != b && (a == reasons.Nobody || b == reasons.Nobody) {
		if a == reasons.Nobody {
			return 1
		}
		return -1
	}
	return strings.Compare(a, b)
}

// owners counts sorted Renders by owner and reason.
func owners(all []one) []OwnerGroup {
	var groups []OwnerGroup
	for _, r := range all {
		if last := len(groups) - 1; last < 0 || groups[last].Owner != r.Owner {
			groups = append(groups, OwnerGroup{Owner: r.Owner, ID: anchor(r.Owner), Nobody: r.Owner == reasons.Nobody})
		}
		group := &groups[len(groups)-1]
		group.Total++
		if last := len(group.Reasons) - 1; last < 0 || group.Reasons[last].Reason != r.Reason {
			group.Reasons = append(group.Reasons, ReasonCount{Reason: r.Reason, Text: r.Text})
		}
		group.Reasons[len(group.Reasons)-1].Total++
	}
	return groups
}

// anchor makes an ID of an owner's name.
func anchor(owner string) string {
	return "owner-" + strings.Map(func(char rune) rune {
		if char >= 'a' && char <= 'z' {
			return char
		}
		return '-'
	}, owner)
}

func renderRow(s *State, r *one) RenderRow {
	id := r.status.ID
	return RenderRow{
		ID:      strings.Join([]string{"render", r.cluster, id.Namespace, id.Name}, "/"),
		Cluster: r.cluster, Namespace: id.Namespace, Name: id.Name,
		Link: pathLink(r.cluster, id), Class: plain(r.status.Class),
		Finding: r.Finding, Since: ago(r.status.Since, s.Now),
	}
}

// pathLink leads to the page of one Render.
func pathLink(cluster string, id fleet.ID) string {
	return "/renders/" + url.PathEscape(cluster) + "/" + url.PathEscape(id.Namespace) + "/" + url.PathEscape(id.Name)
}
