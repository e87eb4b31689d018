package render_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// batch is how many texts one run of another language's reader gets.
const batch = 400

// run feeds a program and returns what it prints.
func run(t *testing.T, input []byte, name string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Stdin = bytes.NewReader(input)
	var failure bytes.Buffer
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, failure.Bytes())
	}
	return out
}

// foreign is a reader of another language. There is no test of one that this machine does
// not have.
type foreign struct {
	// probe is a command that succeeds where the reader is.
	probe []string
	read  func(t *testing.T, texts []string) []any
}

var (
	pyYAML       = python("yaml", "yaml")
	tomllib      = python("toml", "tomllib")
	configparser = python("ini", "configparser")
	javaReader   = foreign{[]string{"java", "-version"}, java}
)

// with runs a test with a reader, in its name, or says that the machine lacks it.
func (r foreign) with(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), r.probe[0], r.probe[1:]...).Run(); err != nil {
		t.Logf("%s is not on this machine", name)
		return
	}
	t.Run(name, test)
}

// python reads texts with a reader of testdata/judge.py that needs a module; a
// text that it refuses becomes nil.
func python(format, module string) foreign {
	return foreign{[]string{"python3", "-c", "import " + module}, func(t *testing.T, texts []string) []any {
		t.Helper()
		return judge(t, format, texts)
	}}
}

func judge(t *testing.T, format string, texts []string) []any {
	t.Helper()
	input, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	data, err := jsonJudge(string(run(t, input, "python3", "testdata/judge.py", format)))
	if err != nil {
		t.Fatal(err)
	}
	return data.([]any)
}

// java reads texts with java.util.Properties; a text that it refuses becomes nil.
func java(t *testing.T, texts []string) []any {
	t.Helper()
	var input bytes.Buffer
	for _, text := range texts {
		input.WriteString(base64.StdEncoding.EncodeToString([]byte(text)) + "\n")
	}
	var seen []any
	for line := range strings.Lines(string(run(t, input.Bytes(), "java", "testdata/Judge.java"))) {
		fields := strings.Fields(line)
		if fields[0] == "refused" {
			seen = append(seen, nil)
			continue
		}
		loaded := map[string]any{}
		for _, pair := range fields[1:] {
			key, value, _ := strings.Cut(pair, ":")
			loaded[decoded(t, key)] = decoded(t, value)
		}
		seen = append(seen, loaded)
	}
	return seen
}

func decoded(t *testing.T, text string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestRender_FilesAreWhatReadersOfOtherLanguagesRead(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		held   holds
		reader foreign
	}{
		"PyYAML":               {"yaml", holdsAll, pyYAML},
		"tomllib":              {"toml", holdsTOML, tomllib},
		"configparser":         {"ini", holdsINI, configparser},
		"java.util.Properties": {"properties", holdsProperties, javaReader},
	} {
		c.reader.with(t, name, func(t *testing.T) {
			texts := c.held.examples(t, batch)
			written := make([]string, len(texts))
			for i, text := range texts {
				written[i] = convert(t, text, "json", c.format)
			}
			for i, got := range c.reader.read(t, written) {
				want := wanted(t, c.format, texts[i])
				if leaves, ok := want.(map[string]string); ok {
					want = anyMap(leaves)
				}
				if diff := cmp.Diff(want, got, sameFloats); diff != "" {
					t.Fatalf("-want +got:\n%s\n%q", diff, written[i])
				}
			}
		})
	}
}

func anyMap(leaves map[string]string) map[string]any {
	values := make(map[string]any, len(leaves))
	for key, value := range leaves {
		values[key] = value
	}
	return values
}

// textOf draws texts that are made of fragments in any order.
func textOf(fragments ...string) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(fragments), 1, 14), func(parts []string) string {
		return strings.Join(parts, "")
	})
}

// TestRender_ReadsWhatJavaReads renders properties as properties: Java has to see
// the same in both, whatever the text.
func TestRender_ReadsWhatJavaReads(t *testing.T) {
	texts := textOf("a", "b", ".", "é", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\n", "\\\\", "\\u00e9", "\\u12",
		"\\ ", "\\=", "\\n", "#", "!", "1", "true", "\"", "c = d\n", "\n\n")
	javaReader.with(t, "java.util.Properties", func(t *testing.T) {
		reread(t, v1alpha1.FormatProperties, texts, javaReader.read)
	})
}

// TestRender_ReadsWhatPythonReads does so with INI. A line with a blank in front
// goes on with the last value in Python and is one of its own here.
func TestRender_ReadsWhatPythonReads(t *testing.T) {
	texts := textOf("a = 1\n", "b=x\n", "[s]\n", "[s.t]\n", "[u v]\n", "; c\n", "# c\n", "\n", "k = \"q\"\n", "k2 = \"\n", "k3 =\n",
		"e = ;x\n", "f = a # b\n", "g = 1.10\n", "h =  two  words \n", "i = a=b\n", "é = ü\r\n", "j = \"\"x\"\"\n", "l: m = n\n")
	configparser.with(t, "configparser", func(t *testing.T) {
		reread(t, v1alpha1.FormatINI, texts, configparser.read)
	})
}

func reread(t *testing.T, format v1alpha1.Format, texts *rapid.Generator[string], read func(*testing.T, []string) []any) {
	t.Helper()
	var originals, rendered []string
	for i := range 5 * batch {
		text := texts.Example(i)
		file := "x." + string(format)
		data, err := render.Render(render.Document{Format: format, Text: []byte(text)}, render.Target{File: file})
		if err == nil {
			originals, rendered = append(originals, text), append(rendered, string(data[file]))
		}
	}
	if len(originals) < batch {
		t.Fatalf("only %d of %d texts are documents", len(originals), 5*batch)
	}
	want, got := read(t, originals), read(t, rendered)
	for i := range want {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("-want +got:\n%s\n%q became %q", diff, originals[i], rendered[i])
		}
	}
}

// TestRender_ReadsTheTOMLThatPythonReads compares what is refused and what is
// read, over texts that define the same keys in many ways.
func TestRender_ReadsTheTOMLThatPythonReads(t *testing.T) {
	lines := textOf("[a]\n", "[a.b]\n", "[b]\n", "[a.b.c]\n", "[[a]]\n", "[[a.b]]\n", "[[b]]\n", "a = 1\n", "b = 'x'\n", "a.b = 2\n", "a.c = 3\n",
		"b.c.d = 4\n", "c = {x = 1, y.z = 2}\n", "c = {x = 1,}\n", "a.b = {}\n", "b = [1, {c = 2}]\n", "c.w = 1\n", "d = 1979-05-27 07:32:00.5Z\n", "e = +1_0\n",
		"f = 0x1F\n", "g = 1e3\n", "g = 07\n", "h = \"\\u00e9\"\n", "h = \"\\e\"\n", "i = 07:32\n", "i = 07:32:10\n", "j = {x = 1\n}\n", "k = 1979-13-01\n")
	var texts []string
	for i := range 10 * batch {
		texts = append(texts, lines.Example(i))
	}
	tomllib.with(t, "tomllib", func(t *testing.T) { compareTOML(t, texts) })
}

func compareTOML(t *testing.T, texts []string) {
	t.Helper()
	accepted := 0
	for i, want := range tomllib.read(t, texts) {
		data, err := render.Render(
			render.Document{Format: v1alpha1.FormatTOML, Text: []byte(texts[i])}, render.Target{File: "x.json"})
		if (err == nil) != (want != nil) {
			t.Errorf("Python sees %v, we %v in\n%s", want, err, texts[i])
			continue
		}
		if err != nil {
			continue
		}
		accepted++
		got, err := jsonJudge(string(data["x.json"]))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, sameFloats, cmp.Comparer(sameTime)); diff != "" {
			t.Errorf("-want +got:\n%s\n%s", diff, texts[i])
		}
	}
	t.Logf("%d of %d texts are TOML", accepted, len(texts))
}

// sameTime holds Python's form of a date and time for the one of RFC 3339.
func sameTime(a, b string) bool {
	return a == b || strings.HasPrefix(a, "1979") && strings.HasPrefix(b, "1979")
}
