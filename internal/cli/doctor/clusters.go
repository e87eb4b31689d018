package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/deploy/crds"
	"dynamic-config.rs/fleet/internal/cli/kube"
)

const (
	// maxSkew is what certificates allow between two clocks; at half of it somebody
	// should look.
	maxSkew = 5 * time.Minute
	// answerTimeout bounds the first request to a cluster.
	answerTimeout = 10 * time.Second

	crdsHint = "helm upgrade --install dynamic-config-crds deploy/charts/crds"
)

// answer is whether a cluster answers, and what its clock says.
type answer struct {
	ok       bool
	findings []Finding
	skew     time.Duration // of the API server's clock before the caller's
	dated    bool
}

// answers asks a cluster for its version.
func (p *Patient) answers(ctx context.Context, conn *kube.Conn) answer {
	const check = "api server"
	date, err := serverDate(ctx, conn.Config)
	if err != nil {
		return answer{findings: one(Fail, conn.Side, check, "does not answer: "+err.Error(), "check --context and --hub-context")}
	}
	a := answer{ok: true, findings: one(OK, conn.Side, check, "answers", "")}
	if !date.IsZero() {
		a.skew, a.dated = date.Sub(p.Now()), true
	}
	return a
}

// serverDate is the Date header of an API server's answer; zero when it sends none.
func serverDate(ctx context.Context, config *rest.Config) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	caller, err := rest.HTTPClientFor(config)
	if err != nil {
		return time.Time{}, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return time.Time{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/version").String(), http.NoBody)
	if err != nil {
		return time.Time{}, err
	}
	response, err := caller.Do(request)
	if err != nil {
		return time.Time{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("it says %s", response.Status)
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil // an API server need not send its time
	}
	return date, nil
}

// clocks compares the clocks of the two clusters, which certificates depend on.
func clocks(workload, hub answer) Finding {
	const check = "clocks"
	side := kube.WorkloadSide
	if !workload.dated || !hub.dated {
		return Finding{Warn, side, check, "an API server does not send its time", ""}
	}
	skew := (workload.skew - hub.skew).Abs().Round(time.Second)
	message := fmt.Sprintf("those of the two clusters differ by %s", skew)
	switch {
	case skew >= maxSkew:
		return Finding{Fail, side, check, message, "certificates allow 5m: synchronise the clocks of the nodes"}
	case skew >= maxSkew/2:
		return Finding{Warn, side, check, message, "certificates allow 5m"}
	}
	return Finding{OK, side, check, message, ""}
}

func workloadDefinitions(ctx context.Context, p *Patient) []Finding {
	return definitions(ctx, p.Workload, "dynamicconfigrenders")
}

func hubDefinitions(ctx context.Context, p *Patient) []Finding {
	return definitions(ctx, p.Hub, "dynamicconfigclasses", "clusterdynamicconfigclasses", "spokeclusters")
}

// definitions compares the CustomResourceDefinitions of a cluster with those that this
// program was built with.
func definitions(ctx context.Context, conn *kube.Conn, plurals ...string) []Finding {
	const check = "definitions"
	ours, err := crds.All()
	if err != nil {
		return unseen(conn.Side, check, err)
	}
	var findings []Finding
	for _, want := range ours {
		for _, plural := range plurals {
			if want.Spec.Names.Plural == plural {
				findings = append(findings, definition(ctx, conn, want)...)
			}
		}
	}
	if len(findings) == 0 {
		return one(OK, conn.Side, check, strings.Join(plurals, ", ")+" are there, as this dynconf knows them", "")
	}
	return findings
}

// definition compares one; it says nothing when all is well.
func definition(ctx context.Context, conn *kube.Conn, want *apiextensionsv1.CustomResourceDefinition) []Finding {
	const check = "definitions"
	have := &apiextensionsv1.CustomResourceDefinition{}
	err := conn.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case kube.Absent(err):
		return one(Fail, conn.Side, check, want.Spec.Names.Plural+" are not installed", crdsHint)
	case err != nil:
		return unseen(conn.Side, check, err)
	}
	for i := range have.Spec.Versions {
		version := &have.Spec.Versions[i]
		if version.Name != v1alpha1.GroupVersion.Version || !version.Served {
			continue
		}
		if !equality.Semantic.DeepEqual(version.Schema, want.Spec.Versions[0].Schema) {
			return one(Warn, conn.Side, check, want.Spec.Names.Plural+" are of another release than this dynconf", crdsHint)
		}
		return nil
	}
	return one(Fail, conn.Side, check, want.Spec.Names.Plural+" do not serve "+v1alpha1.GroupVersion.Version, crdsHint)
}

// right is something a person may need to do.
type right struct{ verb, group, resource, purpose string }

func workloadRights(ctx context.Context, p *Patient) []Finding {
	group := v1alpha1.GroupVersion.Group
	return rights(ctx, p.Workload, p.Namespace,
		right{"list", group, "dynamicconfigrenders", "get, status, why"},
		right{"patch", group, "dynamicconfigrenders", "sync, suspend, resume"},
		right{"get", "", "configmaps", "trace, diff"},
		right{"get", "", "secrets", "trace, diff"},
	)
}

func hubRights(ctx context.Context, p *Patient) []Finding {
	group := v1alpha1.GroupVersion.Group
	return rights(ctx, p.Hub, "",
		right{"list", group, "dynamicconfigclasses", "get classes"},
		right{"list", group, "clusterdynamicconfigclasses", "get classes"},
		right{"list", group, "spokeclusters", "get clusters"},
		right{"patch", group, "spokeclusters", "cluster enroll, suspend, revoke"},
	)
}

// rights asks the API server what the caller may do.
func rights(ctx context.Context, conn *kube.Conn, namespace string, wanted ...right) []Finding {
	const check = "rights"
	var missing []string
	for _, r := range wanted {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: r.verb, Group: r.group, Resource: r.resource},
		}}
		if err := conn.Create(ctx, review); err != nil {
			if apimeta.IsNoMatchError(err) {
				continue
			}
			return unseen(conn.Side, check, err)
		}
		if !review.Status.Allowed {
			missing = append(missing, fmt.Sprintf("%s %s (for %s)", r.verb, r.resource, r.purpose))
		}
	}
	if len(missing) > 0 {
		return one(Warn, conn.Side, check, "you may not "+strings.Join(missing, ", "), "not everybody needs them all")
	}
	return one(OK, conn.Side, check, "you may do what dynconf does", "")
}
