package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// link is a link of Markdown, with what it leads to.
var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

func TestPages_EveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.name] = p.anchors()
	}
	checked := 0
	for _, p := range all {
		// Code may look like a link.
		for _, found := range link.FindAllStringSubmatch(span.ReplaceAllString(p.prose, "code"), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			checked++
			if fault := lead(p.name, found[1], anchors); fault != "" {
				t.Errorf("%s: %s: %s", p.name, found[1], fault)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links", checked)
	}
}

// lead says what is wrong with a link of a page; empty for nothing.
func lead(from, target string, anchors map[string]map[string]bool) string {
	name, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if name != "" {
		to = path.Join(path.Dir(from), name)
	}
	if _, err := os.Stat(filepath.Join(root, to)); err != nil {
		return "there is no such file"
	}
	if hasAnchor && !anchors[to][anchor] {
		return "the page has no such heading"
	}
	return ""
}

// anchors are the fragments that GitHub makes of a page's headings.
func (p *page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, heading := range p.headings {
		base := slug(heading)
		name := base
		for n := 1; all[name]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		all[name] = true
	}
	return all
}

// slug is what GitHub makes of a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// named is a path, in a command or a sentence, that begins with a folder of the repository, or a Go file.
var named = regexp.MustCompile(`^(?:(?:api|cmd|deploy|docs|e2e|hub|internal|proto|render|spoke|tools)/[\w./{},-]*[\w}/]|[\w./-]+\.go)$`)

func TestPages_NameFilesThatExist(t *testing.T) {
	files := tree(t)
	checked := 0
	for _, c := range commands(t) {
		for n, word := range c.words {
			// kubectl has resources that look like paths: deploy/NAME.
			file := c.words[0] != "kubectl" || n > 0 && (c.words[n-1] == "-f" || c.words[n-1] == "-k")
			if !file || !named.MatchString(word) {
				continue
			}
			for _, name := range braces(word) {
				checked++
				if name = strings.TrimSuffix(name, "/"); !strings.Contains(files, "/"+name+"\n") && !strings.Contains(files, "/"+name+"/") {
					t.Errorf("%s: there is no %s", c.at, name)
				}
			}
		}
	}
	if checked < 45 {
		t.Errorf("only %d paths", checked)
	}
}

// tree lists the files of the repository, one a line.
func tree(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all.WriteString(filepath.ToSlash(name) + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// braces writes a{b,c}d out as abd and acd, as a shell does.
func braces(text string) []string {
	before, rest, found := strings.Cut(text, "{")
	inside, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{text}
	}
	var all []string
	for choice := range strings.SplitSeq(inside, ",") {
		all = append(all, braces(before+choice+after)...)
	}
	return all
}

// Every page can be found from the index.
func TestIndex_NamesEveryPage(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		name := strings.TrimPrefix(p.name, "docs/")
		if name == p.name || name == "README.md" || p.decision() {
			continue
		}
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}
