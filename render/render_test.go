package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// refusalOf renders and returns the refusal.
func refusalOf(t *testing.T, doc render.Document, target render.Target) *render.Error {
	t.Helper()
	data, err := render.Render(doc, target)
	var refusal *render.Error
	if !errors.As(err, &refusal) {
		t.Fatalf("got %d keys and %v, want a refusal", len(data), err)
	}
	return refusal
}

func TestRender_Values(t *testing.T) {
	values := map[string][]byte{"ca.crt": []byte("PEM"), "tls.key": {0xFF, 0x00, 0xFE}, "port": []byte("007")}
	for name, c := range map[string]struct {
		target render.Target
		want   map[string]string
	}{
		"entries keep every byte and every name": {
			render.Target{Shape: v1alpha1.ShapeEntries},
			map[string]string{"ca.crt": "PEM", "tls.key": "\xff\x00\xfe", "port": "007"},
		},
		"envEntries keep every byte": {
			render.Target{Shape: v1alpha1.ShapeEnvEntries},
			map[string]string{"CA_CRT": "PEM", "TLS_KEY": "\xff\x00\xfe", "PORT": "007"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := render.Render(render.Document{Key: "secret/a", Format: "yaml", Values: values}, c.target)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for key, value := range data {
				got[key] = string(value)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRender_ValuesInAFile(t *testing.T) {
	doc := render.Document{Key: "configmap/a", Values: map[string][]byte{"a.b": []byte("1"), "c": []byte("x\ny")}}
	want := "{\n  \"a.b\": \"1\",\n  \"c\": \"x\\ny\"\n}\n"
	if got, err := render.Render(doc, render.Target{File: "x.json"}); err != nil || string(got["x.json"]) != want {
		t.Errorf("got %q and %v, want %q", got["x.json"], err, want)
	}
	doc.Values["tls.key"] = []byte("s3cr3t\xff")
	refusal := refusalOf(t, doc, render.Target{File: "x.yaml"})
	want = `configmap/a: a file cannot hold a binary value: "tls.key"`
	if refusal.Reason != v1alpha1.ReasonShapeInvalid || refusal.Message != want {
		t.Errorf("got %s %q, want %q", refusal.Reason, refusal.Message, want)
	}
	if diff := cmp.Diff([]string{`"tls.key"`}, refusal.Paths); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	empty := render.Document{Values: map[string][]byte{}}
	if got, err := render.Render(empty, render.Target{File: "x.json"}); err != nil || string(got["x.json"]) != "{}\n" {
		t.Errorf("an empty object became %q, %v", got["x.json"], err)
	}
}

func TestRender_Refusals(t *testing.T) {
	for name, c := range map[string]struct {
		format, text string
		target       render.Target
		reason       string
		message      string
	}{
		"a shape that is none":                  {"json", `{}`, render.Target{Shape: "x"}, "TargetInvalid", "k: target.shape is none of file, entries, envEntries"},
		"a format that is none":                 {"xml", `<a/>`, render.Target{File: "x.json"}, "DocumentInvalid", ""},
		"a section below a value":               {"json", `{"a":{"b":1}}`, render.Target{File: "x.json", Section: "a.b"}, "DocumentInvalid", `k: spec.section "a.b" is not a table`},
		"a JSON text that ends early":           {"json", "{\n\"a\":", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2, column 5: unexpected end of JSON input"},
		"two JSON values":                       {"json", "{} {}", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1, column 4: the character is not valid JSON here"},
		"bytes that are no UTF-8":               {"yaml", "a: \ufffd\nb: \xff", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2, column 4: the text is not UTF-8"},
		"a float beyond all floats":             {"yaml", "a:\n- 1e999\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a[0]: the number is too large for a float"},
		"the second of two low surrogates":      {"json", `{"a":"\udc00"}`, render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1, column 7: half of a surrogate pair is escaped"},
		"a second YAML document":                {"yaml", "a: 1\n---\nb: 2\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: a second YAML document begins"},
		"a broken second YAML document":         {"yaml", "a: 1\n---\nb: [\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 3: did not find expected node content"},
		"a YAML alias without anchor":           {"yaml", "a: 1\nb: *s3cr3t\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2, column 4: an alias names no anchor before it"},
		"a control character in YAML":           {"yaml", "a: \u00e9\nb: x\x01\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2, column 5: control characters are not allowed"},
		"a TOML key with a percent sign":        {"toml", "\"%d\" = 1\n'%d' = 2\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: \"%d\": the key is there twice"},
		"a JSON key with a percent sign":        {"json", `{"%s":null}`, render.Target{File: "x.toml"}, "ShapeInvalid", `k: a TOML file cannot hold null: "%s"`},
		"a YAML alias inside itself":            {"yaml", "a: &a [*a]\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a[0][0]: an alias lies inside what it stands for"},
		"a merge of a scalar":                   {"yaml", "a:\n  <<: 1\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a.\"<<\": a merge key takes a mapping or a sequence of mappings (line 2)"},
		"a merge of a list in a list":           {"yaml", "<<: [[{a: 1}]]\n", render.Target{File: "x.json"}, "DocumentInvalid", ""},
		"a merge of itself":                     {"yaml", "a: &a\n  <<: *a\n", render.Target{File: "x.json"}, "DocumentInvalid", ""},
		"two merge keys":                        {"yaml", "a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n", render.Target{File: "x.json"}, "DocumentInvalid", `k: b."<<": the key is there twice`},
		"a YAML list as key":                    {"yaml", "a:\n  ? [b]\n  : 1\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a: a key is no scalar (line 2)"},
		"a YAML list as key by alias":           {"yaml", "a: &a [b]\nc:\n  *a : 1\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: c: a key is no scalar (line 1)"},
		"a tag on a YAML key":                   {"yaml", "a:\n  !x b: 1\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a.b: the YAML tag is not one of the core schema (line 2)"},
		"a YAML set":                            {"yaml", "a: !!set {b}\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a: the YAML tag is not one of the core schema (line 1)"},
		"a YAML sequence with the tag of a map": {"yaml", "a: !!map [b]\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a: the YAML tag is not one of the core schema (line 1)"},
		"a YAML tag that does not fit":          {"yaml", "a: !!int s3cr3t\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a: the value does not fit its YAML tag (line 1)"},
		"a duplicate INI key":                   {"ini", "[a]\nb = 1\n[a]\nb = 2\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a.b: the key is there twice (line 4)"},
		"an INI key over a section":             {"ini", "[a.b]\nc = 1\n[a]\nb = 2\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: a.b: the key is there twice (line 4)"},
		"an INI key that is empty":              {"ini", " = s3cr3t\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1: a key is empty"},
		"an INI section that is not closed":     {"ini", "[a] ; b\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1: a section is not closed by ] at the end of the line"},
		"an INI bracket alone":                  {"ini", "[", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1: a section is not closed by ] at the end of the line"},
		"an INI section with an empty part":     {"ini", "\r[a..b]", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: a section name has an empty part"},
		"a short properties escape":             {"properties", "a = 1\nb = \\\n  \\u12\n", render.Target{File: "x.json"}, "DocumentInvalid", `k: line 2: \u is not followed by four hexadecimal digits`},
		"half a pair in properties":             {"properties", `a\ud83c = 1`, render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1: half of a surrogate pair is escaped"},
		"a TOML key below a value":              {"toml", "a = 1\na.b = 2\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: a: the key is there twice"},
		"a TOML table that is there as a value": {"toml", "a = 1\n[a.b]\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: a: the key is there already and is no table"},
		"a TOML table that is there as a list":  {"toml", "[a]\n[[a]]\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 2: a: the key is there already and is no array of tables"},
		"a TOML date of no year":                {"toml", "a = 1979-02-30\n", render.Target{File: "x.json"}, "DocumentInvalid", "k: line 1: a: the number, date or time is not one of TOML 1.0, or out of range"},
		"a TOML array without end":              {"toml", "a = [\n1\n", render.Target{File: "x.json"}, "DocumentInvalid", ""},
		"a TOML float in INI":                   {"toml", "a = nan\n", render.Target{File: "x.ini"}, "ShapeInvalid", "k: an INI file cannot hold an infinite or not-a-number float: a"},
		"a TOML float in properties":            {"toml", "a.b = -inf\n", render.Target{File: "x.properties"}, "ShapeInvalid", "k: a properties file cannot hold an infinite or not-a-number float: a.b"},
		"a TOML float in an entry":              {"toml", "a = [1.0, inf]\n", render.Target{Shape: "entries"}, "ShapeInvalid", "k: an entry cannot hold an infinite or not-a-number float: a[1]"},
		"a number of faults":                    {"json", `{"":1,"a":[[null]],"b":null,"c":99999999999999999999}`, render.Target{File: "x.toml"}, "ShapeInvalid", "k: a TOML file cannot hold null: a[0][0], b; an integer beyond 64 bits: c"},
		"an INI key with a byte order mark":     {"json", "{\"\ufeffa\":1}", render.Target{File: "x.ini"}, "ShapeInvalid", ""},
		"an INI section with an empty name":     {"json", `{"":{"a":1}}`, render.Target{File: "x.ini"}, "ShapeInvalid", `k: an INI file cannot hold a section name with an empty part, ] or a line break: ""`},
	} {
		t.Run(name, func(t *testing.T) {
			refusal := refusalOf(t, render.Document{Key: "k", Format: v1alpha1.Format(c.format), Text: []byte(c.text)}, c.target)
			if refusal.Reason != c.reason || c.message != "" && refusal.Message != c.message {
				t.Errorf("got %s %q,\nwant %s %q", refusal.Reason, refusal.Message, c.reason, c.message)
			}
			if strings.Contains(refusal.Error(), canary) {
				t.Errorf("a value shows: %v", refusal)
			}
		})
	}
}

func TestRender_YAML(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"the 1.2 directive is known":           {"%YAML 1.2\n---\na: 1\n", "a: 1\n"},
		"one document may be ended":            {"---\na: 1\n...\n", "a: 1\n"},
		"tags of the core schema":              {"a: !!float 3\nb: !!int '5'\nc: !!null\nd: !!bool 'true'\ne: !!float 1e3\nf: !!seq []\n", "a: 3.0\nb: 5\nc: null\nd: true\ne: 1000.0\nf: []\n"},
		"a tag of its own keeps the text":      {"a: ! 5\nb: &x ! true\nc: [! 6, *x]\n", "a: '5'\nb: 'true'\nc:\n  - '6'\n  - 'true'\n"},
		"an alias as key":                      {"a: &k name\n*k : 1\n", "a: name\nname: 1\n"},
		"a merge of a list by alias":           {"a: &l [{x: 1}, {x: 2, z: 3}]\nb: {<<: *l, z: 4}\n", "a:\n  - x: 1\n  - x: 2\n    z: 3\nb:\n  x: 1\n  z: 4\n"},
		"a quoted << is a key":                 {"'<<': {x: 1}\n", "'<<':\n  x: 1\n"},
		"collections in lists":                 {"a: [[1, [2]], {b: {c: []}}]\n", "a:\n  - - 1\n    - - 2\n  - b:\n      c: []\n"},
		"integers with signs and zeros":        {"a: -0\nb: +7\nc: -017\nd: 00\ne: 0\ng: +\n", "a: 0\nb: 7\nc: '-017'\nd: '00'\ne: 0\ng: '+'\n"},
		"floats in all forms":                  {"a: -.5\nb: 5.\nc: 1E5\nd: 01.5\ne: 1e-400\nf: .e1\n", "a: -0.5\nb: 5.0\nc: 100000.0\nd: 1.5\ne: 0.0\nf: '.e1'\n"},
		"a key of more than 1,024 characters":  {strings.Repeat("k", 1001) + ":\n  a: 1\n", "? " + strings.Repeat("k", 1001) + "\n:\n  a: 1\n"},
		"strings on one line with all escapes": {"a: \"\\\"\\\\\\n\\r\\t\\a\\x85\\u2028é\"\n", "a: \"\\\"\\\\\\n\\r\\t\\x07\\x85\\u2028é\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := convert(t, c.text, "yaml", "yaml"); got != c.want {
				t.Errorf("-want +got:\n%s", cmp.Diff(c.want, got))
			}
		})
	}
}

func TestRender_TOML(t *testing.T) {
	text := "z = 0x10\n[a.b]\nc = [1, {d = {}, e = 1.5}]\n[a]\n'x y' = \"\"\n[[l]]\n[[l]]\nm.n = 1\n[l.o]\nd = 1979-05-27 07:32:00.500-07:00\n[e.f]\n"
	want := "z = 16\n\n[a]\n\"x y\" = \"\"\n\n[a.b]\nc = [1, { d = { }, e = 1.5 }]\n\n[e.f]\n\n[[l]]\n\n[[l]]\n\n[l.m]\nn = 1\n\n[l.o]\nd = \"1979-05-27T07:32:00.5-07:00\"\n"
	if got := convert(t, text, "toml", "toml"); got != want {
		t.Errorf("-want +got:\n%s", cmp.Diff(want, got))
	}
	floats := convert(t, "a: [.inf, -.inf, .nan, 5e-2, 1e300]\n", "yaml", "toml")
	if want := "a = [inf, -inf, nan, 0.05, 1" + strings.Repeat("0", 300) + ".0]\n"; floats != want {
		t.Errorf("-want +got:\n%s", cmp.Diff(want, floats))
	}
}

func TestRender_LeavesBesideLongNames(t *testing.T) {
	text := `{"` + strings.Repeat("k", 1<<20) + `":{` + numbered(`"a%d":{},`, 40000) + `"b":{}},"z":1}`
	data, err := render.Render(render.Document{Format: "json", Text: []byte(text)}, render.Target{Shape: "entries"})
	if err != nil || len(data) != 1 || string(data["z"]) != "1" {
		t.Errorf("%d keys, %v", len(data), err)
	}
	if got := convert(t, text, "json", "properties"); got != "z = 1\n" {
		t.Errorf("got %q", got)
	}
}

func TestError_ManyAndLongPathsAreCut(t *testing.T) {
	var text strings.Builder
	text.WriteString(`{"` + strings.Repeat("k", 5000) + `":null`)
	for i := range 2000 {
		fmt.Fprintf(&text, `,"a key %d":{"%s":null}`, i, strings.Repeat("é", 600))
	}
	text.WriteString("}")
	refusal := refusalOf(t, render.Document{Format: "json", Text: []byte(text.String())}, render.Target{File: "x.toml"})
	if len(refusal.Paths) != 1000 || len(refusal.Message) > 20<<10 || !strings.Contains(refusal.Message, " more") {
		t.Errorf("%d paths, message of %d bytes ends in %q", len(refusal.Paths), len(refusal.Message), refusal.Message[len(refusal.Message)-20:])
	}
	for _, path := range refusal.Paths {
		if len(path) > 4<<10 {
			t.Fatalf("a path of %d bytes", len(path))
		}
	}
}
