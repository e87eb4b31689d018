package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pages that name the tests which prove them name tests that exist.
func TestPages_NameTestsThatExist(t *testing.T) {
	tests := allTests(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`")
	for page, least := range map[string]int{"security.md": 20, "failures.md": 60} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			names := named.FindAllStringSubmatch(string(text), -1)
			if len(names) < least {
				t.Errorf("the page names %d tests", len(names))
			}
			for _, name := range names {
				if !strings.Contains(tests, "func "+name[1]+"(") {
					t.Errorf("there is no %s", name[1])
				}
			}
		})
	}
}

// What a stranger runs first is two commands, and no third.
func TestReadme_TheQuickStartIsTwoCommands(t *testing.T) {
	var lines []string
	for _, p := range pages(t) {
		if p.name != "README.md" {
			continue
		}
		for _, c := range p.commands(t) {
			if c.inBlock {
				lines = append(lines, strings.Join(c.words, " "))
			}
		}
	}
	if want := []string{"make demo", "make test"}; !slices.Equal(lines, want) {
		t.Errorf("want %q, got %q", want, lines)
	}
}

// allTests is the text of every test file.
func allTests(t *testing.T) string {
	t.Helper()
	var tests strings.Builder
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests.String()
}
