package web

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"time"
)

//go:embed templates
var sources embed.FS

// pages are the templates of the pages, each within the frame.
var pages = parse("clusters", "renders", "path", "login", "problem")

// Page is what the frame shows around a page.
type Page struct {
	// Name of the template.
	Name string
	// User who looks, and Path of the page; empty where nobody is known.
	User, Path string
	// Read is when the state was read, and Replica by whom.
	Read    Moment
	Replica string
	Body    any
}

func parse(names ...string) map[string]*template.Template {
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.ParseFS(sources, "templates/frame.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return all
}

// show writes a page. It is made whole first, so that a fault in it is no half page.
func show(w http.ResponseWriter, status int, page Page) {
	var out bytes.Buffer
	if err := pages[page.Name].ExecuteTemplate(&out, "frame", page); err != nil {
		http.Error(w, "this page cannot be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = out.WriteTo(w) // whoever asked is gone
}

// problem says why there is no page.
func problem(w http.ResponseWriter, status int, text string) {
	show(w, status, Page{Name: "problem", Body: text})
}

// at is a time of day.
func at(t time.Time) Moment {
	return Moment{ISO: t.UTC().Format(time.RFC3339), Text: t.UTC().Format("15:04:05") + " UTC"}
}
