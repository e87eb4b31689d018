package charts_test

import (
	"regexp"
	"testing"
)

var goMemLimit = regexp.MustCompile(`\{name: GOMEMLIMIT, value: (\S+)\}`)

func TestCharts_TellGoNineTenthsOfTheLimit(t *testing.T) {
	for title, tc := range map[string]struct{ set, want string }{
		"of a limit in Gi":                  {"resources.limits.memory=4Gi", "3686MiB"},
		"of a limit in Mi":                  {"resources.limits.memory=700Mi", "630MiB"},
		"unless something else is said":     {"goMemLimit=1GiB", "1GiB"},
		"unless it is off":                  {"goMemLimit=off", "off"},
		"not of a limit that is no whole":   {"resources.limits.memory=1.5Gi", ""},
		"not where there is no limit":       {"resources.limits=null", ""},
		"not where there are no resources":  {"resources=null", ""},
		"not of a limit in decimal letters": {"resources.limits.memory=1G", ""},
	} {
		t.Run(title, func(t *testing.T) {
			for chart, values := range map[string]string{"hub": "hub/testdata/default.values.yaml", "spoke": "spoke/testdata/minimal.values.yaml"} {
				out, said, err := run(t, "template", chart, chart, "--values", values, "--set", tc.set)
				if err != nil {
					t.Fatalf("%v\n%s", err, said)
				}
				got := ""
				if found := goMemLimit.FindStringSubmatch(out); found != nil {
					got = found[1]
				}
				if got != tc.want {
					t.Errorf("chart %s with %s: GOMEMLIMIT is %q, want %q", chart, tc.set, got, tc.want)
				}
			}
		})
	}
}
