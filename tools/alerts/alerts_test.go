package alerts

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// rules are those of both charts, by name.
func rules(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	found := map[string]rulefmt.Rule{}
	files, err := filepath.Glob("../../deploy/charts/*/alerts/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		groups, errs := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		for _, err := range errs {
			t.Errorf("%s: %v", file, err)
		}
		if groups == nil {
			continue
		}
		for _, group := range groups.Groups {
			for _, rule := range group.Rules {
				found[rule.Alert] = rule
			}
		}
	}
	return found
}

func TestRules_SayWhatAPersonNeeds(t *testing.T) {
	for name, rule := range rules(t) {
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks a severity, a summary or a description", name)
		}
	}
}

func TestRules_FireWhenTheyShould(t *testing.T) {
	known := rules(t)
	tried := map[string]map[bool]bool{}
	for name, c := range map[string]struct {
		alert, series string
		fires         bool
	}{
		"no replica of the hub serves metrics": {"DynamicConfigHubDown", "up 1x120", true},
		"a replica of the hub serves metrics":  {"DynamicConfigHubDown", "dynamicconfig_hub_sessions 0x120", false},
		"a fifth of the spokes are gone":       {"DynamicConfigHubLostSpokes", "dynamicconfig_hub_sessions 10x90 8x30", true},
		"spokes moved to the other replica":    {"DynamicConfigHubLostSpokes", "dynamicconfig_hub_sessions{pod=\"a\"} 10x90 4x30\n  dynamicconfig_hub_sessions{pod=\"b\"} 10x90 16x30", false},
		"no spoke has ever been there":         {"DynamicConfigHubLostSpokes", "dynamicconfig_hub_sessions 0x120", false},
		"a half of the requests fail":          {"DynamicConfigHubStoreFailing", store("0+10x120", "0+5x120"), true},
		"one in a hundred requests fails":      {"DynamicConfigHubStoreFailing", store("0+100x120", "0+1x120"), false},
		"nothing is asked of any store":        {"DynamicConfigHubStoreFailing", store("0x120", "0x120"), false},
		"a spoke speaks of more than is known": {"DynamicConfigHubFramesIgnored", "dynamicconfig_hub_frames_ignored_total 0x90 5x30", true},
		"every frame is known":                 {"DynamicConfigHubFramesIgnored", "dynamicconfig_hub_frames_ignored_total 5x120", false},
		"the agent has lost its hub":           {"DynamicConfigSpokeDisconnected", "dynamicconfig_spoke_connected 0x120", true},
		"the agent holds a session":            {"DynamicConfigSpokeDisconnected", "dynamicconfig_spoke_connected 1x120", false},
		"a new pod is connected, the old gone": {"DynamicConfigSpokeDisconnected", "dynamicconfig_spoke_connected{pod=\"a\"} 0x120\n  dynamicconfig_spoke_connected{pod=\"b\"} 1x120", false},
		"the agent serves no metrics":          {"DynamicConfigSpokeDown", "up 1x120", true},
		"the agent serves metrics":             {"DynamicConfigSpokeDown", "dynamicconfig_spoke_connected 0x120", false},
		"the certificate ends in an hour":      {"DynamicConfigSpokeCertificateEnds", "dynamicconfig_spoke_certificate_expiry_timestamp_seconds 10800x120", true},
		"the certificate ends in twelve hours": {"DynamicConfigSpokeCertificateEnds", "dynamicconfig_spoke_certificate_expiry_timestamp_seconds 50400x120", false},
		"targets are refused":                  {"DynamicConfigSpokeApplyFailing", `dynamicconfig_spoke_apply_total{reason="TargetNotOwned"} 0+1x120`, true},
		"targets are written":                  {"DynamicConfigSpokeApplyFailing", `dynamicconfig_spoke_apply_total{reason="Applied"} 0+1x120`, false},
		"the hub speaks of more than is known": {"DynamicConfigSpokeFramesUnknown", "dynamicconfig_spoke_unknown_frames_total 0x90 5x30", true},
		"every frame of the hub is known":      {"DynamicConfigSpokeFramesUnknown", "dynamicconfig_spoke_unknown_frames_total 0x120", false},
	} {
		t.Run(name, func(t *testing.T) {
			rule, ok := known[c.alert]
			if !ok {
				t.Fatalf("no alert %s", c.alert)
			}
			if tried[c.alert] == nil {
				tried[c.alert] = map[bool]bool{}
			}
			tried[c.alert][c.fires] = true
			if fires := evaluate(t, rule.Expr, c.series); fires != c.fires {
				t.Errorf("it fires: %t", fires)
			}
		})
	}
	for name := range known {
		if !tried[name][true] || !tried[name][false] {
			t.Errorf("%s has no case in which it fires, or none in which it does not", name)
		}
	}
}

// store are the series of requests to stores, a minute each.
func store(requests, failures string) string {
	return "dynamicconfig_hub_store_fetches_total " + requests +
		"\n  dynamicconfig_hub_store_watches_total 0x120" +
		"\n  dynamicconfig_hub_store_failures_total " + failures
}

// evaluate says whether an expression has a result after two hours of series that
// have a value each minute.
func evaluate(t *testing.T, expression, series string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+series)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, expression, time.Unix(0, 0).Add(2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil {
		t.Fatal(result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatal(err)
	}
	return len(vector) > 0
}
