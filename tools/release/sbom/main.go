// Command sbom writes a CycloneDX bill of materials of Go binaries to its output:
// what the Go tool says it built them from, with nothing looked up anywhere.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "dev", "version of the product")
	date := flag.String("date", "", "time of the commit, RFC 3339")
	flag.Parse()
	if err := write(os.Stdout, *version, *date, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write writes the bill of materials of some binaries.
func write(out io.Writer, version, date string, binaries []string) error {
	modules := map[string]cyclonedx.Component{}
	var product []cyclonedx.Component
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return fmt.Errorf("%s: %w", binary, err)
		}
		product = append(product, cyclonedx.Component{
			BOMRef: filepath.Base(binary), Type: cyclonedx.ComponentTypeApplication, Name: filepath.Base(binary), Version: version,
			PackageURL: "pkg:golang/" + info.Path + "@" + version,
		})
		standard := component(&debug.Module{Path: "stdlib", Version: strings.Replace(info.GoVersion, "go", "v", 1)})
		modules[standard.BOMRef] = standard
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			c := component(module)
			modules[c.BOMRef] = c
		}
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: date,
		Component: &cyclonedx.Component{
			BOMRef: "fleet", Type: cyclonedx.ComponentTypeApplication, Name: "dynamic-config-fleet", Version: version, Components: &product,
		},
	}
	components := make([]cyclonedx.Component, 0, len(modules))
	for _, c := range modules {
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	return cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component is a module, with the hash that go.sum has of it.
func component(m *debug.Module) cyclonedx.Component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl,
	}
	if sum, isH1 := strings.CutPrefix(m.Sum, "h1:"); isH1 {
		if raw, err := base64.StdEncoding.DecodeString(sum); err == nil {
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}
		}
	}
	return c
}
