// Command kindpages renews the reference part of the pages in docs/kinds. It takes the
// folder of the pages.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"dynamic-config.rs/fleet/deploy/crds"
	"dynamic-config.rs/fleet/internal/kindpages"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kindpages FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kindpages:", err)
		os.Exit(1)
	}
}

// run renews every page of the folder.
func run(folder string) error {
	all, err := crds.All()
	if err != nil {
		return err
	}
	for _, crd := range all {
		file := filepath.Join(folder, kindpages.FileName(crd))
		page, err := os.ReadFile(file) //nolint:gosec // the folder is the caller's to choose
		if err != nil {
			return err
		}
		renewed, err := kindpages.Update(string(page), crd)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(renewed), 0o644); err != nil { //nolint:gosec // a page is for everybody to read
			return err
		}
	}
	return nil
}
