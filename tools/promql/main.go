package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func main() {
	var scrapes, rules, dashboards string
	flag.StringVar(&scrapes, "scrapes", "", "folder of scrapes: <job>.<instance>.<number>.prom, a minute between two numbers from 0 on")
	flag.StringVar(&rules, "rules", "", "folder of rules")
	flag.StringVar(&dashboards, "dashboards", "", "folder of dashboards")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, scrapes, rules, dashboards); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// query is one of a dashboard or of a rule.
type query struct {
	name, expr string
	// shown: without a series there would be an empty panel.
	shown bool
}

// run evaluates every query on the scrapes.
func run(ctx context.Context, out io.Writer, scrapes, rules, dashboards string) error {
	m, end, err := readScrapes(scrapes)
	if err != nil {
		return err
	}
	all, err := rulesIn(rules)
	if err != nil {
		return err
	}
	// What rules record is there for the queries behind them.
	if err := m.record(ctx, all, end); err != nil {
		return err
	}
	queries, err := panelsIn(dashboards)
	if err != nil {
		return err
	}
	for _, rule := range all { // an alert may well have no series
		queries = append(queries, query{name: rule.Alert + rule.Record, expr: rule.Expr, shown: rule.Record != ""})
	}
	var failed []error
	for _, q := range queries {
		n, err := q.evaluate(ctx, m, end)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %s: %w", q.name, q.expr, err))
		}
		fmt.Fprintf(out, "%4d series: %s: %s\n", n, q.name, strings.Join(strings.Fields(q.expr), " "))
	}
	return errors.Join(failed...)
}

// evaluate says how many series a query has. It fails when it names a metric that
// nobody serves, or has none where it should.
func (q query) evaluate(ctx context.Context, m memory, at time.Duration) (int, error) {
	expr, err := promQL.ParseExpr(q.expr)
	if err != nil {
		return 0, err
	}
	served := m.names()
	var unknown []error
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !served[selector.Name] {
			unknown = append(unknown, fmt.Errorf("nobody serves %s", selector.Name))
		}
		return nil
	})
	if len(unknown) > 0 {
		return 0, errors.Join(unknown...)
	}
	vector, err := m.query(ctx, q.expr, at)
	if err == nil && len(vector) == 0 && q.shown {
		err = errors.New("no series")
	}
	return len(vector), err
}

// rulesIn are the rules of a folder.
func rulesIn(dir string) ([]rulefmt.Rule, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []rulefmt.Rule
	for _, file := range files {
		rules, err := readRules(file)
		if err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

// dashboard is Grafana's, as far as queries go.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// panelsIn are the queries of dashboards, as Grafana sends them.
func panelsIn(dir string) ([]query, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var queries []query
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
				queries = append(queries, query{filepath.Base(file) + "/" + panel.Title, expr, true})
			}
		}
	}
	return queries, nil
}

// readScrapes reads what processes served, and says when the last was.
func readScrapes(dir string) (m memory, end time.Duration, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.prom"))
	if err != nil || len(files) == 0 {
		return nil, 0, fmt.Errorf("no scrapes in %q: %w", dir, errors.Join(err, os.ErrNotExist))
	}
	m = memory{}
	for _, file := range files { // sorted, so that the numbers of a process are in order
		var number int
		parts := strings.Split(filepath.Base(file), ".")
		if len(parts) != 4 {
			return nil, 0, fmt.Errorf("%s: want <job>.<instance>.<number>.prom", file)
		}
		if _, err := fmt.Sscan(parts[2], &number); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		at := time.Duration(number) * time.Minute
		end = max(end, at)
		if err := m.scrape(file, parts[0], parts[1], at); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
	}
	return m, end, nil
}

// scrape adds what a process served.
func (m memory) scrape(file, job, instance string, at time.Duration) error {
	text, err := os.Open(file)
	if err != nil {
		return err
	}
	defer text.Close()
	decoder := expfmt.NewDecoder(text, expfmt.NewFormat(expfmt.TypeTextPlain))
	for {
		family := &dto.MetricFamily{}
		if err := decoder.Decode(family); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Time(at.Milliseconds())}, family)
		if err != nil {
			return err
		}
		for _, sample := range samples {
			b := labels.NewBuilder(labels.EmptyLabels())
			for name, value := range sample.Metric {
				b.Set(string(name), string(value))
			}
			// As the ServiceMonitors of the charts have it.
			m.add(b.Set("job", job).Set("instance", instance).Set("namespace", "dynamic-config-system").Labels(), at, float64(sample.Value))
		}
	}
}
