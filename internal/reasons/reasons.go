package reasons

import (
	"cmp"
	"regexp"
	"strings"

	"dynamic-config.rs/fleet/docs"
)

// Reason is what the page of reasons says of one.
type Reason struct {
	// Name is the reason as conditions carry it.
	Name string
	// Text says what it means, whose it is and what to do, without markup.
	Text string
	// Owner is whose problem it is, for instance "the tenant"; where the page names
	// several, "the class owner or the tenant"; "nobody" for none.
	Owner string
}

var (
	heading = regexp.MustCompile(`(?m)^### (\w+)\n`)
	section = regexp.MustCompile(`(?m)^#{1,3} `)
	// bold is how the page marks whose a problem is: **The tenant's:**.
	bold = regexp.MustCompile(`\*\*(.+?)\*\*`)
	// status is that of the condition, which whoever asks knows.
	status = regexp.MustCompile(`^\*\*(True|Unknown)\.\*\* `)
	markup = strings.NewReplacer("**", "", "`", "", "\n", " ")
	known  = parse(docs.Reasons)
)

// Nobody owns a reason that is no problem.
const Nobody = "nobody"

// Lookup returns what the page says of a reason.
func Lookup(name string) (Reason, bool) {
	reason, ok := known[name]
	return reason, ok
}

// Names are the reasons that the page has.
func Names() []string {
	names := make([]string, 0, len(known))
	for name := range known {
		names = append(names, name)
	}
	return names
}

// parse cuts the page into its reasons.
func parse(page string) map[string]Reason {
	reasons := map[string]Reason{}
	for _, at := range heading.FindAllStringSubmatchIndex(page, -1) {
		name, body := page[at[2]:at[3]], page[at[1]:]
		if end := section.FindStringIndex(body); end != nil {
			body = body[:end[0]]
		}
		reasons[name] = Reason{
			Name:  name,
			Text:  strings.TrimSpace(markup.Replace(status.ReplaceAllString(strings.TrimSpace(body), ""))),
			Owner: ownerIn(body),
		}
	}
	return reasons
}

// ownerIn finds the owners that a paragraph names, in its order.
func ownerIn(body string) string {
	var owners []string
	for _, found := range bold.FindAllStringSubmatch(body, -1) {
		words := strings.ToLower(strings.TrimRight(found[1], ".:"))
		words = strings.TrimSuffix(strings.TrimPrefix(words, "if it stays, "), " if it stays")
		owner, possessive := strings.CutSuffix(words, "'s")
		switch {
		case possessive && strings.HasPrefix(owner, "the "):
			owners = append(owners, strings.Replace(owner, "'s (", " (", 1))
		case words == "ours":
			owners = append(owners, "the product")
		case words == "whoever set it":
			owners = append(owners, words)
		}
	}
	return cmp.Or(strings.Join(owners, " or "), Nobody)
}
