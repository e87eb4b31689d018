package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// command is one command line of a page.
type command struct {
	words   []string
	inBlock bool
	// at is where it stands, for messages.
	at string
}

// commands are the command lines of all pages: what stands in blocks behind a dollar, and
// what sentences mention.
func commands(t *testing.T) []command {
	t.Helper()
	var all []command
	for _, p := range pages(t) {
		if p.decision() {
			continue
		}
		for _, b := range p.blocks {
			if b.lang != "console" && b.lang != "sh" {
				continue
			}
			for _, line := range prompt.FindAllStringSubmatch(strings.ReplaceAll(b.text, "\\\n", " "), -1) {
				all = append(all, parts(b.at, line[1])...)
			}
		}
		for _, code := range p.spans() {
			if words := split(code); len(words) > 0 {
				all = append(all, command{words: words, at: p.name})
			}
		}
	}
	return all
}

// prompt is a line that a person types.
var prompt = regexp.MustCompile(`(?m)^\$ (.+)$`)

// ends are the words that end a command within a line.
var ends = map[string]bool{"|": true, "&&": true, "&": true, ";": true, "do": true}

// parts are the commands of one line.
func parts(at, line string) []command {
	var all []command
	var words []string
	for _, word := range append(split(line), ";") {
		if !ends[word] {
			words = append(words, word)
			continue
		}
		if len(words) > 0 {
			all = append(all, command{words: words, inBlock: true, at: at})
		}
		words = nil
	}
	return all
}

// assignment is what may stand around a command, as in NAME=$(command).
var assignment = regexp.MustCompile(`^\w+=\$\(`)

// split parts a line into words as a shell does, as far as the pages need it: quotes,
// comments and redirections to files.
func split(line string) []string {
	if inside := assignment.FindString(line); inside != "" {
		line, _, _ = strings.Cut(line[len(inside):], ")")
	}
	var words []string
	var word strings.Builder
	var quote rune
	started := false
	end := func() {
		if started && !strings.HasPrefix(word.String(), ">") {
			words = append(words, word.String())
		}
		word.Reset()
		started = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, started = r, true
		case quote == 0 && (r == ' ' || r == '\n'):
			end()
		case quote == 0 && r == '#' && !started:
			return words
		default:
			word.WriteRune(r)
			started = true
		}
	}
	end()
	return words
}
