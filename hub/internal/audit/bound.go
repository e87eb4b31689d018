package audit

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/time/rate"
)

const (
	// linesPerSecond and linesBurst bound one cluster's lines of one verdict: the first
	// inventory of a thousand Renders is written whole, and whoever asks without end
	// gets some 6 KB a second.
	linesPerSecond, linesBurst = 20, 1000
	// maxName is the longest name of an object, and more than a cluster's.
	maxName = 253
	// maxKey is the longest key of a document.
	maxKey = 1024
)

// bound says which lines share a bound.
type bound struct {
	cluster string
	verdict Verdict
}

type bucket struct {
	limiter *rate.Limiter
	dropped int
}

func newBucket() *bucket { return &bucket{limiter: rate.NewLimiter(linesPerSecond, linesBurst)} }

func (b *bucket) allow() bool { return b.limiter.Allow() }

// idle says that a new bucket would do the same.
func (b *bucket) idle() bool { return b.limiter.Tokens() >= linesBurst }

// clean keeps text that somebody else chose from acting on who reads it: at most so
// many bytes, and each character that does not print, as those that turn the direction
// of a line, is shown as the replacement character.
func clean(text string, longest int) string {
	cut := ""
	if len(text) > longest {
		for longest > 0 && !utf8.RuneStart(text[longest]) {
			longest--
		}
		text, cut = text[:longest], "…"
	}
	return strings.Map(func(char rune) rune {
		if !unicode.IsPrint(char) {
			return utf8.RuneError
		}
		return char
	}, text) + cut
}
