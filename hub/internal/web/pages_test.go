package web_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// seconds are of what happened just now.
var seconds = regexp.MustCompile(`\b\d+s ago`)

// visit is a viewer's look at a page.
func (s *site) visit(secret, path string) page {
	s.t.Helper()
	got := s.get(s.browser(), path, "Authorization", "Bearer "+secret)
	if got.status != 200 {
		s.t.Fatalf("%s: %d\n%s", path, got.status, got.text)
	}
	return parse(s.t, got.text)
}

// rows are what the rows of a page's tables say, cells between bars.
func (p page) rows() []string {
	var all []string
	for _, row := range p.all("tr") {
		var cells []string
		for _, cell := range row.all("td", "th") {
			cells = append(cells, cell.text())
		}
		all = append(all, strings.Join(cells, " | "))
	}
	return all
}

func TestClusters_ThoseWithAProblemFirst(t *testing.T) {
	s := newFleet(t)
	p := s.visit(viewer(t, "clusters"), "/")
	want := []string{
		"Cluster | State | Session | Renders | Ready | Failed | Waiting | Unanswered | Last applied | Certificate ends | Agent",
		"edge-07 | not connected Disconnected, 3h ago ; the workload cluster's administrator | none, last with hub-1 | 3 | 2 | 1 | 0 | no session | v1.4.0",
		"prod-eu | connected | hub-0, 17m ago | 6 | 1 | 4 | 1 | 0 | 0s ago | in 11h | v1.4.0",
		"prod-us | connected | hub-0, 24m ago | 2 | 2 | 0 | 0 | 1, oldest 0s ago | 0s ago | in 3h not renewed | v1.4.0",
		"prod-ap | connected | hub-1, 19m ago | 40 | 40 | 0 | 0 | known to hub-1 | v1.4.0",
		"staging | suspended Suspended, 2d2h ago ; whoever set it | none | none | none | none | none | no session | none",
	}
	rows := p.rows()
	for i := range rows {
		rows[i] = seconds.ReplaceAllString(rows[i], "0s ago")
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := p.byID(t, "summary").text(); got != "3 of 5 accepted clusters connected. 51 Renders: 45 ready, 5 failed, 1 waiting." {
		t.Errorf("summary: %s", got)
	}
	scope := p.all("aside")[0].text()
	if !strings.Contains(scope, "Replica hub-0 answers. It holds the sessions of 2 clusters; 1 is with hub-1; 2 have no session.") {
		t.Errorf("scope: %s", scope)
	}
}

func TestClusters_NarrowedByName(t *testing.T) {
	s := newFleet(t)
	secret := viewer(t, "narrowed")
	if got := s.visit(secret, "/?name=prod-").rows(); len(got) != 4 {
		t.Errorf("got %q", got)
	}
	if text := s.visit(secret, "/?name=none").all("main")[0].text(); !strings.Contains(text, "No cluster has a name with “none” in it.") {
		t.Errorf("got %s", text)
	}
	if text := newSite(t).visit(secret, "/").all("main")[0].text(); !strings.Contains(text, "The hub has no SpokeCluster yet.") {
		t.Errorf("got %s", text)
	}
}

func TestRenders_ByWhoseTheyAre(t *testing.T) {
	s := newFleet(t)
	secret := viewer(t, "renders")
	p := s.visit(secret, "/renders")
	var groups []string
	for _, heading := range p.all("h2") {
		groups = append(groups, heading.text())
	}
	if diff := cmp.Diff([]string{"For the platform team (2)", "For the tenant (1)", "For the tenant (key) or the platform team (1)", "For whoever set it (1)", "Nobody’s problem (1)"}, groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	var found []string
	for _, row := range p.rows() {
		if !strings.HasPrefix(row, "Render |") {
			found = append(found, seconds.ReplaceAllString(row, "0s ago"))
		}
	}
	want := []string{
		"shop/orders | prod-eu | ClusterDynamicConfigClass/vault | failed StoreSealed | 0s ago | ClusterDynamicConfigClass/vault: fetch shop/orders.json: the store is sealed",
		"shop/payments | prod-eu | ClusterDynamicConfigClass/vault | failed StoreSealed | 0s ago | ClusterDynamicConfigClass/vault: fetch shop/payments.json: the store is sealed",
		"billing/worker | prod-eu | ClusterDynamicConfigClass/shared | failed QuotaExceeded | 0s ago | the cluster says more in the status of the Render",
		"billing/api | prod-eu | ClusterDynamicConfigClass/shared | failed ClassNotAllowed | 0s ago | no namespace selector of the class selects billing",
		"shop/suspended | prod-eu | ClusterDynamicConfigClass/shared | suspended Suspended | 0s ago | ",
		"shop/cart | prod-us | ClusterDynamicConfigClass/shared | waiting Pending | 0s ago | delivered, and the cluster has not answered",
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if text := p.byID(t, "owner-the-platform-team").text(); !strings.Contains(text, "StoreSealed (2) The store is sealed or not initialised.") {
		t.Errorf("the reason is not explained: %s", text)
	}
	if rows := s.visit(secret, "/renders?cluster=prod-eu").rows(); len(rows) != 6+5 { // and a heading for each owner
		t.Errorf("one cluster: %q", rows)
	}
	for path, want := range map[string]string{
		"/renders?cluster=prod-ap":      "holds its session with replica hub-1, which alone knows its Renders",
		"/renders?cluster=edge-07":      "holds no session, so the hub does not know its Renders",
		"/renders?cluster=none":         "There is no SpokeCluster of this name.",
		"/renders/prod-ap/shop/web":     "holds its session with replica hub-1",
		"/renders/prod-eu/shop/unknown": "The cluster has no Render of this name.",
	} {
		if text := s.visit(secret, path).all("main")[0].text(); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

func TestRenders_WhenNoneIsToBeSeen(t *testing.T) {
	const allReady = "Every Render in the clusters of this replica is ready."
	secret := viewer(t, "none")
	s := newSite(t)
	if text := s.visit(secret, "/renders").all("main")[0].text(); !strings.Contains(text, "This replica holds no cluster.") || strings.Contains(text, allReady) {
		t.Errorf("without a session: %s", text)
	}
	s = newSite(t, spokeCluster("prod-eu", with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, time.Minute, v1alpha1.RenderCounts{})))
	session, err := s.fleet.Connect("prod-eu", 1, "a")
	if err != nil {
		t.Fatal(err)
	}
	s.sessions["prod-eu"] = session
	if text := s.visit(secret, "/renders").all("main")[0].text(); !strings.Contains(text, allReady) {
		t.Errorf("with a session that has no Render: %s", text)
	}
}

func TestRender_ItsWay(t *testing.T) {
	s := newFleet(t)
	secret := viewer(t, "way")
	for path, want := range map[string]struct {
		verdict string
		steps   []string
	}{
		"prod-eu/shop/web":       {"ready Rendered on Ready.", []string{"passed", "passed", "passed", "passed", "ready"}},
		"prod-eu/shop/payments":  {"failed StoreSealed on Fetched, for the platform team.", []string{"passed", "not ready", "failed", "not reached", "not reached"}},
		"prod-eu/billing/api":    {"failed ClassNotAllowed on Ready, for the tenant (key) or the platform team.", []string{"passed", "failed", "not reached", "not reached", "not reached"}},
		"prod-eu/billing/worker": {"failed QuotaExceeded on Applied, for the tenant.", []string{"passed", "passed", "passed", "passed", "failed"}},
		"prod-eu/shop/suspended": {"suspended Suspended on Fetched, for whoever set it.", []string{"suspended", "not reached", "not reached", "not reached", "not reached"}},
		"prod-us/shop/cart":      {"waiting Pending on Applied.", []string{"passed", "passed", "passed", "waiting", "not reached"}},
	} {
		t.Run(path, func(t *testing.T) {
			p := s.visit(secret, "/renders/"+path)
			if got := p.byID(t, "summary").text(); !strings.HasPrefix(got, want.verdict) {
				t.Errorf("verdict: %s", got)
			}
			var steps []string
			for _, id := range []string{"step-render", "step-class", "step-store", "step-delivery", "step-target"} {
				for _, span := range p.byID(t, id).all("span") {
					if strings.HasPrefix(span.attribute("class"), "state ") {
						steps = append(steps, span.text())
					}
				}
			}
			if diff := cmp.Diff(want.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
	p := s.visit(secret, "/renders/prod-eu/shop/web")
	for id, want := range map[string]string{
		"step-render": "key shop/web.yaml",
		"step-class":  "class ClusterDynamicConfigClass/shared",
		"step-store":  "store consul key shop/web.yaml version delivered last 42",
		"step-target": "object Secret shop/web-config shape",
	} {
		if got := p.byID(t, id).text(); !strings.Contains(got, want) {
			t.Errorf("%s: %s", id, got)
		}
	}
}

// A thousand clusters with a hundred Renders each, all failing, are shown in parts.
func TestPages_OfALargeFleet(t *testing.T) {
	const clusters, renders = 1000, 100
	var objects []client.Object
	for i := range clusters {
		objects = append(objects, spokeCluster(fmt.Sprintf("c-%04d", i), with("hub-0", metav1.ConditionTrue, v1alpha1.ReasonConnected, time.Minute, v1alpha1.RenderCounts{Total: renders, Failed: renders})))
	}
	s := newSite(t, objects...)
	for i := range clusters {
		name := fmt.Sprintf("c-%04d", i)
		session, err := s.fleet.Connect(name, 1, "a")
		if err != nil {
			t.Fatal(err)
		}
		s.sessions[name] = session
		var specs []fleet.Spec
		for j := range renders {
			specs = append(specs, fleet.Spec{ID: fleet.ID{Namespace: "shop", Name: fmt.Sprintf("r-%03d", j)}, UID: "u", Generation: 1, Class: "ClusterDynamicConfigClass/shared"})
		}
		session.Replace(specs)
		for _, spec := range specs {
			s.refuse(name, "shop/"+spec.ID.Name, fleet.Refusal{ReadyReason: v1alpha1.ReasonClassNotFound, Message: "the hub has no such class"})
		}
	}
	secret := viewer(t, "large")
	for path, want := range map[string]struct {
		rows int
		part string
	}{
		"/":                            {100, "1 to 100 of 1000 Next"},
		"/?page=10":                    {100, "901 to 1000 of 1000 Previous"},
		"/?page=4711":                  {100, "901 to 1000 of 1000 Previous"},
		"/?page=-1":                    {100, "1 to 100 of 1000 Next"},
		"/renders":                     {100, "1 to 100 of 100000 Next"},
		"/renders?page=1000":           {100, "99901 to 100000 of 100000 Previous"},
		"/renders?cluster=c-0007":      {100, ""},
		"/renders?page=2&cluster=none": {0, ""},
	} {
		began := time.Now()
		got := s.get(s.browser(), path, "Authorization", "Bearer "+secret)
		p := parse(t, got.text)
		if n := max(0, len(p.rows())-1); n != want.rows {
			t.Errorf("%s: %d rows", path, n)
		}
		part := ""
		for _, nav := range p.all("nav") {
			if nav.attribute("class") == "pages" {
				part = nav.text()
			}
		}
		if part != want.part {
			t.Errorf("%s: %q, want %q", path, part, want.part)
		}
		t.Logf("%s: %d bytes after %s", path, len(got.text), time.Since(began).Round(time.Millisecond))
	}
}
