package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/render"
)

// sized is a document of about so many bytes of JSON, which every format and
// shape can hold; a longer note makes for fewer values.
func sized(size int, note string) string {
	var text bytes.Buffer
	text.WriteString("{")
	for i := 0; text.Len() < size; i++ {
		if i > 0 {
			text.WriteString(",")
		}
		fmt.Fprintf(&text, `"service%d":{"host":"node-%d.internal","port":%d,"ratio":%d.25,"pool":{"warm":true,"note":%q}}`, i, i, i%65536, i, note)
	}
	text.WriteString("}")
	return text.String()
}

func sizes() map[string]string {
	return map[string]string{"10KiB": sized(10<<10, "a b: c"), "900KiB": sized(900<<10, strings.Repeat("a b c ", 180))}
}

// BenchmarkRender reads each format and writes each file and shape.
func BenchmarkRender(b *testing.B) {
	for name, text := range sizes() {
		for _, format := range []v1alpha1.Format{"json", "yaml", "toml", "ini", "properties"} {
			source := convert(b, text, "json", string(format))
			b.Run(fmt.Sprintf("read=%s/%s", format, name), func(b *testing.B) {
				benchmark(b, render.Document{Format: format, Text: []byte(source)}, render.Target{File: "x.json"})
			})
			b.Run(fmt.Sprintf("write=%s/%s", format, name), func(b *testing.B) {
				benchmark(b, render.Document{Format: "json", Text: []byte(text)}, render.Target{File: "x." + string(format)})
			})
		}
		for _, shape := range []v1alpha1.Shape{v1alpha1.ShapeEntries, v1alpha1.ShapeEnvEntries} {
			b.Run(fmt.Sprintf("write=%s/%s", shape, name), func(b *testing.B) {
				benchmark(b, render.Document{Format: "json", Text: []byte(text)}, render.Target{Shape: shape})
			})
		}
	}
}

func benchmark(b *testing.B, doc render.Document, target render.Target) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(len(doc.Text)))
	for b.Loop() {
		if _, err := render.Render(doc, target); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStd is what encoding/json needs for the same JSON documents, for
// comparison with read=json.
func BenchmarkStd(b *testing.B) {
	for name, text := range sizes() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var data any
				if err := json.Unmarshal([]byte(text), &data); err != nil {
					b.Fatal(err)
				}
				if _, err := json.MarshalIndent(data, "", "  "); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
