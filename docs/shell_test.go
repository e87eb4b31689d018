package docs_test

import (
	"io"
	"maps"
	"regexp"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// command is one call of a program on a page, as a shell would make it.
type command struct {
	words   []string
	inBlock bool
	// sentence is the code in a sentence that it is part of.
	sentence string
	// at is where it stands, for messages.
	at   string
	page *page
	// from is the command that is piped into it.
	from *command
	// writes is the file that its output goes to.
	writes string
	// hasInput says that its input stands in the block.
	hasInput bool
	// output is what a block shows below it.
	output string
}

// String is the command for messages.
func (c *command) String() string { return c.at + ": " + strings.Join(c.words, " ") }

// commands are the command lines of all pages: what stands in blocks behind a dollar, and
// what sentences mention.
func commands(t *testing.T) []*command {
	t.Helper()
	var all []*command
	for _, p := range pages(t) {
		if !p.decision() {
			all = append(all, p.commands(t)...)
		}
	}
	return all
}

// commands are the command lines of one page.
func (p *page) commands(t *testing.T) []*command {
	t.Helper()
	var all []*command
	for _, b := range p.blocks {
		if b.lang != "console" {
			continue
		}
		for _, typed := range b.typed() {
			calls, err := calls(typed.text)
			if err != nil {
				t.Errorf("%s: %s: %v", b.at, typed.text, err)
			}
			for _, c := range calls {
				c.inBlock, c.at, c.page, c.output = true, b.at, p, typed.output
			}
			all = append(all, calls...)
		}
	}
	for _, code := range p.spans() {
		calls, err := calls(code)
		if err != nil {
			calls = []*command{{words: strings.Fields(code)}}
		}
		for _, c := range calls {
			c.at, c.page, c.sentence = p.name, p, code
		}
		all = append(all, calls...)
	}
	return all
}

// typed is what a person types at a prompt, over as many lines as the shell wants, and
// what the block shows for it.
type typed struct{ text, output string }

// typed are the prompts of a block.
func (b *block) typed() []typed {
	var all []typed
	whole := true
	for line := range strings.Lines(b.text) {
		prompted, isPrompt := strings.CutPrefix(line, "$ ")
		switch {
		case !whole:
			all[len(all)-1].text += line
		case isPrompt:
			all = append(all, typed{text: prompted})
		case len(all) > 0:
			all[len(all)-1].output += line
			continue
		}
		if len(all) > 0 {
			text := all[len(all)-1].text
			_, err := parser().Parse(strings.NewReader(text), "")
			whole = !strings.HasSuffix(text, "\\\n") && !syntax.IsIncomplete(err)
		}
	}
	return all
}

func parser() *syntax.Parser { return syntax.NewParser(syntax.Variant(syntax.LangBash)) }

// calls are the programs that a script calls, also those within substitutions, and in a
// loop once for each of its values.
func calls(script string) ([]*command, error) {
	file, err := parser().Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	s := shell{variables: map[string]string{}, of: map[*syntax.CallExpr]*command{}}
	s.walk(file)
	return s.all, s.err
}

// shell goes through a script and runs nothing.
type shell struct {
	variables map[string]string
	of        map[*syntax.CallExpr]*command
	all       []*command
	err       error
}

func (s *shell) walk(node syntax.Node) {
	syntax.Walk(node, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CallExpr:
			s.call(n)
		case *syntax.ForClause:
			return !s.loop(n)
		case *syntax.BinaryCmd:
			return !s.pipe(n)
		case *syntax.Stmt:
			return !s.redirected(n)
		}
		return true
	})
}

// call notes a call, with its words as the program gets them.
func (s *shell) call(n *syntax.CallExpr) {
	if len(n.Args) == 0 {
		return
	}
	words, err := expand.Fields(s.config(), n.Args...)
	if err != nil {
		s.err = err
	}
	if len(words) > 0 {
		s.of[n] = &command{words: words}
		s.all = append(s.all, s.of[n])
	}
}

// config leaves names of variables and of substitutions where their values would be.
func (s *shell) config() *expand.Config {
	values := maps.Clone(s.variables)
	return &expand.Config{
		Env: expand.FuncEnviron(func(name string) string {
			if value, known := values[name]; known || name == "IFS" {
				return value
			}
			return "$" + name
		}),
		CmdSubst: func(w io.Writer, _ *syntax.CmdSubst) error {
			_, err := io.WriteString(w, "SUBSTITUTED")
			return err
		},
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return substituted, nil },
	}
}

// loop goes through a loop's body with each of its values.
func (s *shell) loop(n *syntax.ForClause) bool {
	each, isWords := n.Loop.(*syntax.WordIter)
	if !isWords {
		return false
	}
	values, err := expand.Fields(s.config(), each.Items...)
	if err != nil {
		s.err = err
	}
	for _, value := range values {
		s.variables[each.Name.Value] = value
		for _, stmt := range n.Do {
			s.walk(stmt)
		}
	}
	delete(s.variables, each.Name.Value)
	return true
}

// pipe says of a command what is piped into it.
func (s *shell) pipe(n *syntax.BinaryCmd) bool {
	if n.Op != syntax.Pipe {
		return false
	}
	s.walk(n.X)
	s.walk(n.Y)
	before, after := s.last(n.X), s.last(n.Y)
	if after != nil {
		after.from = before
	}
	return true
}

// last is the call that a statement's output comes from.
func (s *shell) last(stmt *syntax.Stmt) *command {
	switch n := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		return s.of[n]
	case *syntax.BinaryCmd:
		return s.last(n.Y)
	}
	return nil
}

// redirected says of a call which file it writes.
func (s *shell) redirected(n *syntax.Stmt) bool {
	call, isCall := n.Cmd.(*syntax.CallExpr)
	if !isCall || len(n.Redirs) == 0 {
		return false
	}
	s.walk(call)
	for _, r := range n.Redirs {
		if r.Hdoc != nil {
			s.walk(r.Hdoc)
		}
		c := s.of[call]
		if c == nil {
			continue
		}
		c.hasInput = c.hasInput || r.Hdoc != nil
		if r.Op == syntax.RdrOut {
			file, err := expand.Literal(s.config(), r.Word)
			if err != nil {
				s.err = err
			}
			c.writes = file
		}
	}
	return true
}

// substituted is the file that stands for what a command prints.
const substituted = "/dev/fd/63"

// program is what a first word looks like that is a program's name.
var program = regexp.MustCompile(`^(?:\.|[a-z.][a-z0-9._/-]*)$`)
