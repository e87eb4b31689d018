package render

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxAliased is how many bytes of text aliases may add to a YAML document.
const maxAliased = 1 << 20

// readYAML reads one document by the 1.2 core schema. The library makes nodes;
// what they mean is decided here, because it follows YAML 1.1 in part.
func readYAML(text string) (table, error) {
	// The library knows the 1.1 directive only; its grammar serves both.
	if rest, ok := strings.CutPrefix(text, "%YAML 1.2"); ok {
		text = "%YAML 1.1" + rest
	}
	var doc, second yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(text))
	failed, err := guarded(func() error { return decoder.Decode(&doc) })
	switch {
	case errors.Is(err, io.EOF):
		return table{}, nil
	case failed || err != nil:
		return nil, yamlFault(text, err)
	}
	failed, err = guarded(func() error { return decoder.Decode(&second) })
	switch {
	case errors.Is(err, io.EOF):
		return (&yamlReader{bareTags: bareTags(text)}).root(doc.Content[0])
	case failed || err != nil:
		return nil, yamlFault(text, err)
	}
	return nil, invalidLine(second.Line, "a second YAML document begins")
}

// yamlCauses are sentences of the library that hold no text of the document.
var yamlCauses = []string{
	"did not find expected key", "did not find expected ',' or ']'", "did not find expected ',' or '}'",
	"did not find expected '-' indicator", "did not find expected node content",
	"found character that cannot start any token", "mapping values are not allowed in this context",
	"block sequence entries are not allowed in this context", "could not find expected ':'",
	"found a tab character that violates indentation", "found unknown escape character",
	"found unexpected end of stream",
}

const controlCharacters = "control characters are not allowed"

// yamlControl tells the characters that a YAML text may not have.
func yamlControl(r rune) bool {
	return !yamlPrintable(r) && !strings.ContainsRune("\t\n\r\u0085\u2028\u2029\uFEFF", r)
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// yamlFault keeps the line and nothing else of what the library says. Its lines
// start at 0 in errors of the grammar, and the first one is left out.
func yamlFault(text string, err error) error {
	message := ""
	if err != nil {
		message = err.Error()
	}
	line := 1
	if found := yamlLine.FindStringSubmatch(message); found != nil {
		line, _ = strconv.Atoi(found[1])
		if strings.Contains(message, "did not find expected") {
			line++
		}
	}
	if strings.HasSuffix(message, controlCharacters) { // comes without a line
		return invalidByte(text, strings.IndexFunc(text, yamlControl), "%s", controlCharacters)
	}
	last := 1 + strings.Count(strings.TrimRight(text, "\r\n"), "\n")
	if strings.HasPrefix(message, "yaml: unknown anchor ") {
		name := strings.TrimSuffix(strings.TrimPrefix(message, "yaml: unknown anchor '"), "' referenced")
		return invalidByte(text, strings.Index(text, "*"+name), "an alias names no anchor before it")
	}
	return invalidLine(min(line, last), "%s", knownCause(message, yamlCauses, "the text is not valid YAML"))
}

// yamlReader makes values of nodes.
type yamlReader struct {
	bareTags map[position]bool // where a node would have the tag "!"

	following []*yaml.Node // the anchored nodes whose aliases are being expanded
	aliased   int          // bytes of text that aliases have added
	merging   int          // how many merge keys lie inside each other here
}

func (r *yamlReader) root(node *yaml.Node) (table, error) {
	if node.Kind == yaml.ScalarNode && node.Value == "" && node.Style == 0 && node.Anchor == "" {
		return table{}, nil // a document mark alone
	}
	if node.Kind != yaml.MappingNode {
		return nil, notTable()
	}
	return r.mapping(node, rootPath(), 1)
}

func (r *yamlReader) value(node *yaml.Node, at path, depth int) (any, error) {
	if err := r.count(node, at); err != nil {
		return nil, err
	}
	switch node.Kind {
	case yaml.MappingNode:
		return r.mapping(node, at, depth+1)
	case yaml.SequenceNode:
		return r.sequence(node, at, depth+1)
	case yaml.AliasNode:
		return follow(r, node, at, func(target *yaml.Node) (any, error) { return r.value(target, at, depth) })
	default:
		return r.scalar(node, at)
	}
}

// count adds a node to the text that aliases make. Every node counts, because
// empty ones cost memory as well.
func (r *yamlReader) count(node *yaml.Node, at path) error {
	if len(r.following) == 0 || node.Kind == yaml.AliasNode {
		return nil
	}
	r.aliased += max(len(node.Value), 1)
	if r.aliased > maxAliased {
		return invalid(at, "the aliases add more than %d bytes", maxAliased)
	}
	return nil
}

// follow makes something of the node that an alias stands for.
func follow[T any](r *yamlReader, alias *yaml.Node, at path, use func(*yaml.Node) (T, error)) (T, error) {
	if slices.Contains(r.following, alias.Alias) || len(r.following) > maxDepth {
		var none T
		return none, invalid(at, "an alias lies inside what it stands for")
	}
	r.following = append(r.following, alias.Alias)
	value, err := use(alias.Alias)
	r.following = r.following[:len(r.following)-1]
	return value, err
}

func (r *yamlReader) sequence(node *yaml.Node, at path, depth int) (any, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	if err := checkTag(node, "!!seq", at); err != nil {
		return nil, err
	}
	items := make(array, 0, len(node.Content))
	for i, child := range node.Content {
		value, err := r.value(child, at.index(i), depth)
		if err != nil {
			return nil, err
		}
		items = append(items, value)
	}
	return items, nil
}

// mapping makes a table: its own members, then those of merge keys that are not
// there yet.
func (r *yamlReader) mapping(node *yaml.Node, at path, depth int) (table, error) {
	if depth > maxDepth {
		return nil, tooDeep(at)
	}
	if err := checkTag(node, "!!map", at); err != nil {
		return nil, err
	}
	var merges []*yaml.Node
	members := make([]member, 0, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		if isMerge(node.Content[i]) {
			merges = append(merges, node.Content[i+1])
			continue
		}
		key, err := r.key(node.Content[i], at)
		if err != nil {
			return nil, err
		}
		value, err := r.value(node.Content[i+1], at.key(key), depth)
		if err != nil {
			return nil, err
		}
		members = append(members, member{key, value})
	}
	own, err := newTable(members, at)
	if err != nil || len(merges) == 0 {
		return own, err
	}
	if len(merges) > 1 {
		return nil, invalid(at.key("<<"), "the key is there twice")
	}
	merged, err := r.merged(merges[0], at.key("<<"), depth, true)
	if err != nil {
		return nil, err
	}
	return firstOfEach(append(own, merged...)), nil
}

// merged lists the members that a merge key names, of a mapping or of a sequence
// of mappings, the earlier ones first. They are on the level of their new table,
// so that nesting is counted apart.
func (r *yamlReader) merged(node *yaml.Node, at path, depth int, list bool) ([]member, error) {
	if err := r.count(node, at); err != nil {
		return nil, err
	}
	if r.merging == maxDepth {
		return nil, tooDeep(at)
	}
	r.merging++
	defer func() { r.merging-- }()
	switch {
	case node.Kind == yaml.AliasNode:
		return follow(r, node, at, func(target *yaml.Node) ([]member, error) { return r.merged(target, at, depth, list) })
	case node.Kind == yaml.MappingNode:
		return r.mapping(node, at, depth)
	case node.Kind == yaml.SequenceNode && list:
		var all []member
		for i, child := range node.Content {
			one, err := r.merged(child, at.index(i), depth, false)
			if err != nil {
				return nil, err
			}
			all = append(all, one...)
		}
		return all, nil
	default:
		return nil, invalid(at, "a merge key takes a mapping or a sequence of mappings (line %d)", node.Line)
	}
}

// firstOfEach sorts members into a table; of equal keys the first stays.
func firstOfEach(members []member) table {
	slices.SortStableFunc(members, compareKeys)
	return slices.CompactFunc(members, func(a, b member) bool { return a.key == b.key })
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && key.Tag == "!!merge"
}

// key is the text of a scalar key as written.
func (r *yamlReader) key(node *yaml.Node, at path) (string, error) {
	if err := r.count(node, at); err != nil {
		return "", err
	}
	switch node.Kind {
	case yaml.AliasNode:
		return follow(r, node, at, func(target *yaml.Node) (string, error) { return r.key(target, at) })
	case yaml.ScalarNode:
		_, err := r.scalar(node, at.key(node.Value))
		return node.Value, err
	default:
		return "", invalid(at, "a key is no scalar (line %d)", node.Line)
	}
}

// checkTag refuses a collection with another tag.
func checkTag(node *yaml.Node, tag string, at path) error {
	if node.Style&yaml.TaggedStyle != 0 && node.Tag != tag {
		return unknownTag(at, node)
	}
	return nil
}

func unknownTag(at path, node *yaml.Node) error {
	return invalid(at, "the YAML tag is not one of the core schema (line %d)", node.Line)
}
