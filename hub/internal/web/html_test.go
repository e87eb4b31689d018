package web_test

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// allPages are those that there are, of newFleet.
func allPages(t *testing.T, s *site) map[string]string {
	t.Helper()
	secret, all := viewer(t, "reader"), map[string]string{}
	for _, path := range []string{
		"/", "/?name=prod", "/?name=none", "/renders", "/renders?cluster=prod-eu", "/renders?cluster=prod-ap", "/renders?cluster=none",
		"/renders/prod-eu/shop/web", "/renders/prod-eu/shop/payments", "/renders/prod-eu/billing/api", "/renders/prod-eu/billing/worker",
		"/renders/prod-eu/shop/suspended", "/renders/prod-us/shop/cart", "/renders/prod-eu/shop/none", "/renders/prod-ap/shop/web", "/nowhere",
	} {
		all[path] = s.get(s.browser(), path, "Authorization", "Bearer "+secret).text
	}
	all["/login"] = s.get(s.browser(), "/login").text
	all["/login, refused"] = s.login(s.browser(), "made-up").text
	return all
}

// element finds out about one element.
type element struct{ *html.Node }

func (e element) attribute(name string) string {
	value, _ := e.lookup(name)
	return value
}

func (e element) lookup(name string) (string, bool) {
	for _, a := range e.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

// text is what an element says, with single spaces.
func (e element) text() string {
	var all []string
	for n := range e.Descendants() {
		if n.Type == html.TextNode {
			all = append(all, n.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// page is a parsed page.
type page struct{ element }

func parse(t *testing.T, text string) page {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return page{element{root}}
}

// all are the elements of some names, in order.
func (e element) all(names ...string) []element {
	var found []element
	for n := range e.Descendants() {
		for _, name := range names {
			if n.Type == html.ElementNode && n.Data == name {
				found = append(found, element{n})
			}
		}
	}
	return found
}

// byID is the element of an ID.
func (p page) byID(t *testing.T, id string) element {
	t.Helper()
	for n := range p.Descendants() {
		if e := (element{n}); n.Type == html.ElementNode && e.attribute("id") == id {
			return e
		}
	}
	t.Fatalf("there is no #%s", id)
	return element{}
}

func TestPages_AreWellMadeForEverybody(t *testing.T) {
	for path, text := range allPages(t, newFleet(t)) {
		t.Run(path, func(t *testing.T) {
			p := parse(t, text)
			for name, want := range map[string]int{"h1": 1, "main": 1, "title": 1, "header": 1} {
				if got := len(p.all(name)); got != want {
					t.Errorf("%d %s, want %d", got, name, want)
				}
			}
			if p.all("html")[0].attribute("lang") != "en" {
				t.Error("the language is not said")
			}
			if first := p.all("a")[0]; first.attribute("href") != "#main" {
				t.Error("the first link does not skip to the content")
			}
			p.checkTables(t)
			p.checkForms(t)
			p.checkReferences(t)
			p.checkHeadings(t)
			p.checkNothingForeign(t)
		})
	}
}

func (p page) checkTables(t *testing.T) {
	t.Helper()
	for _, table := range p.all("table") {
		if captions := table.all("caption"); len(captions) != 1 || captions[0].text() == "" {
			t.Error("a table has no caption")
		}
		columns := 0
		for _, row := range table.all("tr") {
			cells := 0
			for _, cell := range row.all("td", "th") {
				if scope := cell.attribute("scope"); cell.Data == "th" && scope != "col" && scope != "row" {
					t.Errorf("the heading %q has the scope %q", cell.text(), scope)
				}
				cells++
				if cell.attribute("colspan") == "3" {
					cells += 2
				}
			}
			if columns == 0 {
				columns = cells
			}
			if cells != columns {
				t.Errorf("a row of %d cells in a table of %d columns: %s", cells, columns, row.text())
			}
		}
	}
}

func (p page) checkForms(t *testing.T) {
	t.Helper()
	labels := map[string]bool{}
	for _, label := range p.all("label") {
		labels[label.attribute("for")] = true
	}
	for _, input := range p.all("input") {
		if input.attribute("type") != "hidden" && !labels[input.attribute("id")] {
			t.Errorf("the input %q has no label", input.attribute("name"))
		}
	}
	for _, button := range p.all("button") {
		if button.text() == "" || button.attribute("type") == "" {
			t.Error("a button says not what it does")
		}
	}
}

// checkReferences: IDs are unique, and what refers to one finds it.
func (p page) checkReferences(t *testing.T) {
	t.Helper()
	ids := map[string]bool{}
	for n := range p.Descendants() {
		if id, ok := (element{n}).lookup("id"); ok {
			if ids[id] || id == "" || strings.ContainsAny(id, " \t\n") {
				t.Errorf("the id %q is there twice, or is none", id)
			}
			ids[id] = true
		}
	}
	for n := range p.Descendants() {
		for _, name := range []string{"for", "aria-labelledby", "aria-describedby"} {
			for id := range strings.FieldsSeq((element{n}).attribute(name)) {
				if !ids[id] {
					t.Errorf("%s refers to %q, which is not there", name, id)
				}
			}
		}
	}
	for _, nav := range p.all("nav", "section", "aside") {
		if nav.attribute("aria-label") == "" && nav.attribute("aria-labelledby") == "" {
			t.Errorf("a %s has no name", nav.Data)
		}
	}
}

// checkHeadings: none skips a level.
func (p page) checkHeadings(t *testing.T) {
	t.Helper()
	last := 0
	for _, heading := range p.all("h1", "h2", "h3", "h4") {
		level := int(heading.Data[1] - '0')
		if level > last+1 {
			t.Errorf("%q is of level %d after one of level %d", heading.text(), level, last)
		}
		last = level
	}
}

// checkNothingForeign: no script or style in the page, and nothing from elsewhere.
func (p page) checkNothingForeign(t *testing.T) {
	t.Helper()
	for n := range p.Descendants() {
		if n.Type == html.ElementNode && (n.Data == "style" || n.Data == "script" && n.FirstChild != nil) {
			t.Errorf("there is a %s in the page", n.Data)
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s has the attribute %s", n.Data, a.Key)
			}
			if a.Key == "href" || a.Key == "src" || a.Key == "action" {
				if to, err := url.Parse(a.Val); err != nil || to.IsAbs() || to.Host != "" {
					t.Errorf("%s leads to %s", n.Data, a.Val)
				}
			}
		}
	}
}

func TestPages_ShowNoValue(t *testing.T) {
	s := newFleet(t)
	for path, text := range allPages(t, s) {
		if strings.Contains(text, canary) {
			t.Errorf("%s shows a value", path)
		}
	}
	if strings.Contains(logged.String(), canary) || strings.Contains(s.audit.String(), canary) {
		t.Error("a log holds a value")
	}
}

// What a cluster chose must not act on who reads it.
func TestPages_ShowTextAsText(t *testing.T) {
	s := newSite(t, class("shared", v1alpha1.SourceConsul, "True", v1alpha1.ReasonClassReady, ""))
	evil := renderOf("shop/web", "shared", `<script>alert(1)</script>`+"\u202e"+`"onload=x`)
	evil.Spec.Class = `"><img src=x onerror=alert(1)>`
	s.connect("prod", evil)
	s.refuse("prod", "shop/web", fleet.Refusal{ReadyReason: `<b>Made</b>`, Message: "<script>alert(2)</script>\x1b[31m\u202e"})
	secret := viewer(t, "text")
	for _, path := range []string{"/renders", "/renders/prod/shop/web", "/renders?cluster=%3Cscript%3E", "/?name=%22%3E%3Cscript%3E", "/renders/%3Cb%3E/a/b"} {
		text := s.get(s.browser(), path, "Authorization", "Bearer "+secret).text
		p := parse(t, text)
		p.checkNothingForeign(t)
		if len(p.all("img", "b")) > 0 || strings.ContainsAny(text, "\u202e\x1b") {
			t.Errorf("%s: text became markup:\n%s", path, text)
		}
	}
}
