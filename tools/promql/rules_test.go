package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

const alerts = "../../deploy/alerts"

// script is a file of promtool's unit tests, as far as ours use it.
type script struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []story        `yaml:"tests"`
}

type story struct {
	Name        string
	Interval    model.Duration
	InputSeries []struct{ Series, Values string } `yaml:"input_series"`
	AlertTests  []alertTest                       `yaml:"alert_rule_test"`
	ExprTests   []exprTest                        `yaml:"promql_expr_test"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string
	ExpAlerts []struct {
		ExpLabels      map[string]string `yaml:"exp_labels"`
		ExpAnnotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

type exprTest struct {
	Expr       string
	EvalTime   model.Duration `yaml:"eval_time"`
	ExpSamples []struct {
		Labels string
		Value  float64
	} `yaml:"exp_samples"`
}

// Every alert fires on a story of its own, and not on that of a fleet that is well.
func TestRules_OnRecordedSeries(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(alerts, "tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	fired := map[string]bool{}
	for _, file := range files {
		var s script
		read(t, file, &s)
		var rules []rulefmt.Rule
		for _, name := range s.RuleFiles {
			more, err := readRules(filepath.Join(filepath.Dir(file), name))
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, more...)
		}
		for _, test := range s.Tests {
			t.Run(filepath.Base(file)+"/"+test.Name, func(t *testing.T) { test.play(t, rules, time.Duration(s.EvaluationInterval), fired) })
		}
	}
	for _, file := range ruleFiles(t) {
		rules, err := readRules(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range rules {
			if rule.Alert != "" && !fired[rule.Alert] {
				t.Errorf("no test has %s fire", rule.Alert)
			}
		}
	}
}

func (s story) play(t *testing.T, rules []rulefmt.Rule, step time.Duration, fired map[string]bool) {
	t.Helper()
	m := memory{}
	for _, in := range s.InputSeries {
		l, values, err := promQL.ParseSeriesDesc(in.Series + " " + in.Values)
		if err != nil {
			t.Fatal(err)
		}
		for i, value := range values {
			if !value.Omitted {
				m.add(l, time.Duration(i)*time.Duration(s.Interval), value.Value)
			}
		}
	}
	var end time.Duration
	for _, a := range s.AlertTests {
		end = max(end, time.Duration(a.EvalTime))
	}
	for _, e := range s.ExprTests {
		end = max(end, time.Duration(e.EvalTime))
	}
	e := newEvaluation(m, rules)
	for now := time.Duration(0); now <= end; now += step {
		if err := e.step(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		for _, a := range s.AlertTests {
			if time.Duration(a.EvalTime) == now {
				a.check(t, e.fires[a.Alertname], fired)
			}
		}
		for _, x := range s.ExprTests {
			if time.Duration(x.EvalTime) == now {
				x.check(t, m)
			}
		}
	}
}

func (a alertTest) check(t *testing.T, fires []firing, fired map[string]bool) {
	t.Helper()
	var want, got []string
	for _, alert := range a.ExpAlerts {
		fired[a.Alertname] = true
		want = append(want, fmt.Sprint(alert.ExpLabels, alert.ExpAnnotations))
	}
	for _, alert := range fires {
		got = append(got, fmt.Sprint(alert.Labels, alert.Annotations))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s at %v fires (-want +got):\n%s", a.Alertname, a.EvalTime, diff)
	}
}

func (x exprTest) check(t *testing.T, m memory) {
	t.Helper()
	vector, err := m.query(t.Context(), x.Expr, time.Duration(x.EvalTime))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, sample := range x.ExpSamples {
		l := labels.EmptyLabels()
		if sample.Labels != "" {
			if l, err = promQL.ParseMetric(sample.Labels); err != nil {
				t.Fatal(err)
			}
		}
		want = append(want, fmt.Sprintf("%s %.6g", l, sample.Value))
	}
	for _, sample := range vector {
		got = append(got, fmt.Sprintf("%s %.6g", sample.Metric, sample.F))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s at %v (-want +got):\n%s", x.Expr, x.EvalTime, diff)
	}
}

// Every alert says how bad it is, what happened, what it means, and where to read on.
func TestRules_SayWhatToDo(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range ruleFiles(t) {
		rules, err := readRules(file)
		if err != nil {
			t.Fatal(err)
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
}

func ruleFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(alerts, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rules: %v", err)
	}
	return files
}

func read(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true)
	if err := decoder.Decode(to); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
