package hub

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page on security names the tests that prove it: each exists.
func TestSecurityPage_NamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
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
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 20 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, name := range named {
		if !strings.Contains(tests.String(), "func "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
}
