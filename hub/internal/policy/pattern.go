package policy

import (
	"fmt"
	"slices"
	"strings"
)

const (
	anySegment = "*"
	theRest    = "**"
	cluster    = "{cluster}"
	namespace  = "{namespace}"
)

// PatternError says that a pattern of a class's keys is invalid and therefore
// matches no key.
type PatternError struct {
	// Pattern as the class holds it.
	Pattern string
	// Fault is what is wrong with it.
	Fault string
}

// Error names the pattern, which is for the class's owner and not for the
// requester, and its fault.
func (e *PatternError) Error() string {
	return fmt.Sprintf("pattern %q: %s", e.Pattern, e.Fault)
}

// CheckPattern answers a [*PatternError] for a pattern that cannot match: one
// with a partial wildcard (a*), a ** that is not the last segment, braces other
// than {cluster} and {namespace}, both of them in one segment, or text that no key
// can hold.
func CheckPattern(pattern string) error {
	_, err := patternSegments(pattern)
	return err
}

// matches says whether the pattern, with the requester's names put in, covers
// the key. An invalid pattern covers nothing.
func matches(pattern string, key Key, who Requester) bool {
	want, err := patternSegments(pattern)
	if err != nil {
		return false
	}
	have := key.Segments()
	for i, segment := range want {
		if segment == theRest {
			return len(have) > i
		}
		if i >= len(have) {
			return false
		}
		if segment != anySegment && !matchesLiteral(segment, have[i], who) {
			return false
		}
	}
	return len(have) == len(want)
}

// matchesLiteral compares one segment after putting in the requester's names.
// The names are put in here, after the split, so that nothing in a name can act
// as a slash, a wildcard or another placeholder. Neither name is empty: the rules on
// cluster and namespace refuse such a requester.
func matchesLiteral(segment, have string, who Requester) bool {
	return strings.NewReplacer(cluster, who.Cluster, namespace, who.Namespace).Replace(segment) == have
}

// patternSegments splits a valid pattern.
func patternSegments(pattern string) ([]string, error) {
	// Stand-ins make the rest of the pattern a key, which is then held to the
	// rules of keys.
	plain := strings.NewReplacer(cluster, "c", namespace, "n").Replace(pattern)
	if _, err := CanonicalKey(plain); err != nil {
		return nil, &PatternError{Pattern: pattern, Fault: "not the form of a key"}
	}
	if strings.ContainsAny(plain, "{}") {
		return nil, &PatternError{Pattern: pattern, Fault: "braces other than {cluster} and {namespace}"}
	}
	segments := strings.Split(strings.TrimPrefix(pattern, "/"), "/")
	if last := len(segments) - 1; slices.Contains(segments[:last], theRest) {
		return nil, &PatternError{Pattern: pattern, Fault: "** before the last segment"}
	}
	for _, segment := range segments {
		if strings.Contains(segment, "*") && segment != anySegment && segment != theRest {
			return nil, &PatternError{Pattern: pattern, Fault: "wildcard inside a segment"}
		}
		// A namespace is its cluster's word: a-b and c would reach what is a's and b-c's.
		if strings.Contains(segment, cluster) && strings.Contains(segment, namespace) {
			return nil, &PatternError{Pattern: pattern, Fault: "{cluster} and {namespace} in one segment"}
		}
	}
	return segments, nil
}
