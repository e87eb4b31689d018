package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = ".."

// block is a fenced block of a page, without the indent of its fence.
type block struct {
	lang, text string
	// at is the page and the line of the fence, for messages.
	at string
}

// page is what the tests look at in a page.
type page struct {
	// name is the path from the root of the repository.
	name string
	// prose is the text without its fenced blocks.
	prose    string
	blocks   []block
	headings []string
}

// pages are the pages for people: those of this folder, those at the root, and those that
// stand beside what they speak of.
func pages(t *testing.T) []page {
	t.Helper()
	names := []string{"README.md", "AGENTS.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".md") {
			names = append(names, path.Join("docs", filepath.ToSlash(name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"deploy/*/*/README.md", "tools/*/README.md"} {
		beside, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(beside) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(beside), err)
		}
		for _, name := range beside {
			names = append(names, filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator))))
		}
	}
	all := make([]page, 0, len(names))
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read(name, string(text)))
	}
	return all
}

// fence is a line that begins or ends a block.
var fence = regexp.MustCompile("^( *)```([a-z]*)$")

// read splits a page into prose and blocks.
func read(name, text string) page {
	p := page{name: name}
	var prose strings.Builder
	var inside *block
	indent := ""
	for n, line := range strings.Split(text, "\n") {
		mark := fence.FindStringSubmatch(line)
		switch {
		case inside == nil && mark != nil:
			indent, inside = mark[1], &block{lang: mark[2], at: fmt.Sprintf("%s:%d", name, n+1)}
		case mark != nil:
			p.blocks, inside = append(p.blocks, *inside), nil
		case inside != nil:
			inside.text += strings.TrimPrefix(line, indent) + "\n"
		default:
			prose.WriteString(line + "\n")
			if title := strings.TrimLeft(line, "#"); title != line && strings.HasPrefix(title, " ") {
				p.headings = append(p.headings, strings.TrimSpace(title))
			}
		}
	}
	p.prose = prose.String()
	return p
}

// A block says what it is: otherwise no test looks into it.
func TestPages_EveryBlockIsOfAKindThatIsChecked(t *testing.T) {
	kinds := []string{"console", "yaml", "json", "hcl", "mermaid", "text"}
	for _, p := range pages(t) {
		if strings.Contains(p.prose, "```") {
			t.Errorf("%s: a fence that is no fence", p.name)
		}
		for _, b := range p.blocks {
			if !slices.Contains(kinds, b.lang) {
				t.Errorf("%s: a block of %q", b.at, b.lang)
			}
			if b.lang == "console" && p.decision() {
				t.Errorf("%s: a decision tells what was; a command belongs on a page that is kept true", b.at)
			}
			if b.lang == "console" && !strings.HasPrefix(b.text, "$ ") {
				t.Errorf("%s: the block shows no command", b.at)
			}
		}
	}
}

// span is code in a sentence.
var span = regexp.MustCompile("`([^`\n]+)`")

// spans are the pieces of code in a page's sentences and tables.
func (p *page) spans() []string {
	found := span.FindAllStringSubmatch(p.prose, -1)
	all := make([]string, 0, len(found))
	for _, f := range found {
		all = append(all, strings.ReplaceAll(f[1], `\|`, "|"))
	}
	return all
}

// decision says whether a page is one of docs/adr: those tell what was decided then, and
// are not edited when a name changes.
func (p *page) decision() bool { return strings.HasPrefix(p.name, "docs/adr/") }
