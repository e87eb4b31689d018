package render_test

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// renderCase is one entry of testdata/*-cases.yaml; the head of that file says
// what each field means.
type renderCase struct {
	ID           string
	Rule         int
	Key          string
	InputFormat  string `yaml:"inputFormat"`
	Section      string
	Input        string
	InputBase64  string `yaml:"inputBase64"`
	Generate     []piece
	Shape        string
	File         string
	Want         yaml.Node
	WantGenerate []piece `yaml:"wantGenerate"`
	Compare      string
	MustContain  []string `yaml:"mustContain"`
	Refuse       *struct {
		Reason         string
		MustName       []string `yaml:"mustName"`
		MustNotContain []string `yaml:"mustNotContain"`
	}
}

type piece struct {
	Text  string
	Times int
}

func generate(pieces []piece) string {
	var text strings.Builder
	for _, p := range pieces {
		text.WriteString(strings.Repeat(p.Text, p.Times))
	}
	return text.String()
}

func TestRender_Cases(t *testing.T) {
	files, err := filepath.Glob("testdata/*-cases.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no case files: %v", err)
	}
	count := 0
	for _, file := range files {
		for _, c := range loadCases(t, file) {
			count++
			t.Run(c.ID, c.run)
		}
	}
	t.Logf("%d cases in %d files", count, len(files))
}

func loadCases(tb testing.TB, file string) []renderCase {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var cases []renderCase
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&cases); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
	return cases
}

func (c *renderCase) document(tb testing.TB) render.Document {
	tb.Helper()
	text := c.Input + generate(c.Generate)
	if c.InputBase64 != "" {
		raw, err := base64.StdEncoding.DecodeString(c.InputBase64)
		if err != nil {
			tb.Fatal(err)
		}
		text = string(raw)
	}
	return render.Document{Key: c.Key, Format: v1alpha1.Format(c.InputFormat), Text: []byte(text)}
}

func (c *renderCase) target() render.Target {
	return render.Target{Section: c.Section, Shape: v1alpha1.Shape(c.Shape), File: c.File}
}

func (c *renderCase) run(t *testing.T) {
	data, err := render.Render(c.document(t), c.target())
	switch {
	case c.Refuse != nil:
		c.checkRefusal(t, data, err)
	case err != nil:
		t.Fatalf("refused: %v", err)
	case c.Shape == "file":
		if len(data) != 1 {
			t.Fatalf("%d keys, want one", len(data))
		}
		c.checkFile(t, string(data[c.File]))
	default:
		c.checkEntries(t, data)
	}
}

func (c *renderCase) checkRefusal(t *testing.T, data map[string][]byte, err error) {
	t.Helper()
	var refusal *render.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("got %d keys and %v, want a refusal", len(data), err)
	}
	if data != nil {
		t.Errorf("%d keys beside a refusal", len(data))
	}
	if refusal.Reason != c.Refuse.Reason {
		t.Errorf("reason %s, want %s (%s)", refusal.Reason, c.Refuse.Reason, refusal.Message)
	}
	for _, text := range c.Refuse.MustName {
		if !strings.Contains(refusal.Message, text) {
			t.Errorf("%q does not name %q", refusal.Message, text)
		}
	}
	for _, text := range c.Refuse.MustNotContain {
		if strings.Contains(refusal.Message, text) {
			t.Errorf("%q holds %q", refusal.Message, text)
		}
	}
}

func (c *renderCase) checkFile(t *testing.T, got string) {
	t.Helper()
	want := generate(c.WantGenerate)
	if !c.Want.IsZero() {
		want = c.Want.Value
	}
	switch {
	case c.Compare == "bytes":
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	case strings.HasSuffix(c.File, ".toml"):
		sameData(t, tomlJudge, want, got)
	default:
		for _, judge := range yamlJudges {
			sameData(t, judge, want, got)
		}
	}
	for _, line := range c.MustContain {
		if !hasLine(got, line) {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

// sameData compares two texts as one reader sees them.
func sameData(t *testing.T, read reader, want, got string) {
	t.Helper()
	wanted, err := read(want)
	if err != nil {
		t.Fatalf("the wanted text: %v", err)
	}
	data, err := read(got)
	if err != nil {
		t.Fatalf("not readable: %v\n%s", err, got)
	}
	if diff := cmp.Diff(wanted, data, sameFloats); diff != "" {
		t.Errorf("-want +got:\n%s\n%s", diff, got)
	}
}

func hasLine(text, want string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == want || line == strings.ReplaceAll(want, "'", `"`) {
			return true
		}
	}
	return false
}

func (c *renderCase) checkEntries(t *testing.T, data map[string][]byte) {
	t.Helper()
	want := map[string]string{}
	if err := c.Want.Decode(&want); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, value := range data {
		got[name] = string(value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
