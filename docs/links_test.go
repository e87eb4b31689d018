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

// named is a path in a sentence that begins with a folder of the repository, or a Go file.
var named = regexp.MustCompile(`^(?:(?:api|cmd|deploy|docs|e2e|hub|internal|proto|render|spoke|tools)/[\w./{},-]*[\w}/]|[\w./-]+\.go)$`)

func TestPages_NameFilesThatExist(t *testing.T) {
	files := tree(t)
	checked := 0
	for _, p := range pages(t) {
		if p.decision() {
			continue
		}
		for _, code := range p.spans() {
			if !named.MatchString(code) {
				continue
			}
			for _, name := range braces(code) {
				checked++
				if name = strings.TrimSuffix(name, "/"); !strings.Contains(files, "/"+name+"\n") && !strings.Contains(files, "/"+name+"/") {
					t.Errorf("%s: there is no %s", p.name, name)
				}
			}
		}
	}
	if checked < 30 {
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
	for _, choice := range strings.Split(inside, ",") {
		all = append(all, braces(before+choice+after)...)
	}
	return all
}
