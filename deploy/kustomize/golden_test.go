package kustomize_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"

	"dynamic-config.rs/fleet/internal/testenv"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What each ServiceAccount may do is, line by line, what a reviewer agreed to: as
// `kubectl auth can-i --list` says it, in the product's namespace, a tenant's, and "default".
func TestCanI_IsWhatWasReviewed(t *testing.T) {
	for _, side := range []string{"hub", "spoke"} {
		t.Run(side, func(t *testing.T) {
			apply(t, side)
			file := filepath.Join("testdata", side+".can-i.txt")
			if *update {
				settled(t, side)
				if err := os.WriteFile(file, []byte(canI(t, side)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			// The authorizer reads roles from a watch, which lags behind the apply.
			differs := func() string { return cmp.Diff(string(want), canI(t, side)) }
			gomega.NewWithT(t).Eventually(differs, patience).Should(gomega.BeEmpty(), "go test ./deploy/kustomize -update, and have it reviewed")
		})
	}
}

// settled waits until the authorizer knows the account's roles in both namespaces.
func settled(t *testing.T, side string) {
	t.Helper()
	last := ""
	gomega.NewWithT(t).Eventually(func() bool {
		now := canI(t, side)
		same := now == last && strings.Contains(now, "dynamic-config.rs") && strings.Contains(now, "dynamic-config-"+side+"-")
		last = now
		return same
	}, patience, "1s").Should(gomega.BeTrue())
}

// canI lists what a side's ServiceAccount may do, a rule a line. What every account may
// do, about itself, is left out.
func canI(t *testing.T, side string) string {
	t.Helper()
	config, err := cluster.ServiceAccountConfig(t.Context(), own, "dynamic-config-"+side)
	if err != nil {
		t.Fatal(err)
	}
	account, err := testenv.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, namespace := range []string{own, "team-a", "default"} {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		if err := account.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Incomplete {
			t.Fatal("the API server lists only a part")
		}
		var lines []string
		for _, rule := range review.Status.ResourceRules {
			lines = append(lines, rows(rule)...)
		}
		slices.Sort(lines)
		fmt.Fprintf(&out, "# in namespace %s\n%s\n", namespace, strings.Join(slices.Compact(lines), "\n"))
	}
	return out.String()
}

// rows are the lines of a rule, one for each resource.
func rows(rule authorizationv1.ResourceRule) []string {
	names := "any"
	if len(rule.ResourceNames) > 0 {
		names = strings.Join(slices.Sorted(slices.Values(rule.ResourceNames)), ",")
	}
	var lines []string
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			if resource == "selfsubjectreviews" || resource == "selfsubjectaccessreviews" || resource == "selfsubjectrulesreviews" {
				continue
			}
			if group != "" {
				resource += "." + group
			}
			lines = append(lines, fmt.Sprintf("%-58s %-30s %s", resource, names, strings.Join(slices.Sorted(slices.Values(rule.Verbs)), " ")))
		}
	}
	return lines
}
