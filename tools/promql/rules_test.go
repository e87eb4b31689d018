package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const alerts = "../../deploy/alerts"

// script is a file of promtool's unit tests, as far as it says which alerts fire.
type script struct {
	Tests []struct {
		AlertTests []struct {
			Alertname string
			ExpAlerts []any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

// promtool plays the tests there are; it does not miss one.
func TestRules_EveryAlertFiresInATest(t *testing.T) {
	fired := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(alerts, "tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s script
		if err := yaml.Unmarshal(text, &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, test := range s.Tests {
			for _, alert := range test.AlertTests {
				fired[alert.Alertname] = fired[alert.Alertname] || len(alert.ExpAlerts) > 0
			}
		}
	}
	rules, err := rulesIn(alerts)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		if rule.Alert != "" && !fired[rule.Alert] {
			t.Errorf("no test has %s fire", rule.Alert)
		}
	}
}

// Every alert says how bad it is, what happened, what it means, and where to read on.
func TestRules_SayWhatToDo(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rulesIn(alerts)
	if err != nil || len(rules) == 0 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	for _, rule := range rules {
		if rule.Alert == "" {
			continue
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s has severity %q", rule.Alert, rule.Labels["severity"])
		}
		for _, text := range []string{"summary", "description"} {
			if rule.Annotations[text] == "" {
				t.Errorf("%s has no %s", rule.Alert, text)
			}
		}
		if !strings.Contains(string(page), "`"+rule.Alert+"`") {
			t.Errorf("docs/operations.md does not have %s", rule.Alert)
		}
	}
}
