package docs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"dynamic-config.rs/fleet/internal/telemetry"
)

// served answers as the hub does, by the port that pages forward.
func served() (map[string]http.Handler, error) {
	ok := func(http.ResponseWriter, *http.Request) {}
	metrics, profiles, page := http.NewServeMux(), http.NewServeMux(), http.NewServeMux()
	metrics.Handle(telemetry.LevelPath, telemetry.ServeLevel(&slog.LevelVar{}))
	metrics.HandleFunc("/metrics", ok)
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	// The fleet page needs a hub: its routes are read from where it states them.
	text, err := os.ReadFile(filepath.Join(root, "hub", "internal", "web", "server.go"))
	if err != nil {
		return nil, err
	}
	routes := regexp.MustCompile(`mux\.Handle\w*\("((?:GET|POST) /[^"]+)"`).FindAllStringSubmatch(string(text), -1)
	if len(routes) < 5 {
		return nil, fmt.Errorf("found %d routes of the fleet page", len(routes))
	}
	for _, route := range routes {
		page.HandleFunc(route[1], ok)
	}
	return map[string]http.Handler{"8080": metrics, "6060": profiles, "8444": page}, nil
}

// handler finds who answers a URL of a page.
func handler(text string) (http.Handler, *url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	all, err := served()
	if err != nil {
		return nil, nil, err
	}
	answers := all[u.Port()]
	if answers == nil || u.Hostname() != "localhost" {
		return nil, nil, fmt.Errorf("there is no port %s of the hub at %s", u.Port(), u.Hostname())
	}
	if (u.Port() == "8444") != (u.Scheme == "https") {
		return nil, nil, fmt.Errorf("port %s does not speak %s", u.Port(), u.Scheme)
	}
	return answers, u, nil
}

// curlCommand makes the request that curl would make.
func curlCommand(s *stage, c *command) error {
	flags := pflag.NewFlagSet("curl", pflag.ContinueOnError)
	method := flags.StringP("request", "X", http.MethodGet, "")
	data := flags.StringP("data", "d", "", "")
	headers := flags.StringArrayP("header", "H", nil, "")
	ca := flags.String("cacert", "", "")
	if err := flags.Parse(c.words[1:]); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("want one URL, got %q", flags.Args())
	}
	if *ca != "" && !c.page.writes(*ca) {
		return fmt.Errorf("nothing on the page writes %s", *ca)
	}
	answers, u, err := handler(flags.Arg(0))
	if err != nil {
		return err
	}
	request := httptest.NewRequestWithContext(s.t.Context(), *method, u.String(), strings.NewReader(*data))
	request.RemoteAddr = "127.0.0.1:1"
	for _, header := range *headers {
		name, value, isHeader := strings.Cut(header, ": ")
		if !isHeader {
			return fmt.Errorf("no header: %s", header)
		}
		request.Header.Set(name, value)
	}
	answer := httptest.NewRecorder()
	answers.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		return fmt.Errorf("the answer is %d", answer.Code)
	}
	if c.output != "" && answer.Body.String() != c.output {
		return fmt.Errorf("the answer is %q", answer.Body)
	}
	return nil
}

// profiled has go tool pprof read a profile of this process, from the handler that serves
// those of the hub.
func (s *stage) profiled(words []string) error {
	last := len(words) - 1
	answers, u, err := handler(words[last])
	if err != nil {
		return err
	}
	server := httptest.NewServer(answers)
	defer server.Close()
	args := append([]string{"tool", "pprof"}, words[:last]...)
	s.t.Setenv("PPROF_TMPDIR", s.t.TempDir())
	_, err = s.run(root, "go", append(args, server.URL+u.Path)...)
	return err
}

// forwarded says whether a port that a command forwards is one that the chart names, or
// that a flag on the same page opens.
func (s *stage) forwarded(c *command, positional []string) error {
	if len(positional) != 3 {
		return errors.New("want an object and a port")
	}
	object, err := s.run(root, s.kubectl, "-n", "dynamic-config-system", "get", positional[1], "-o", "json")
	if err != nil {
		return err
	}
	port := positional[2]
	inChart := regexp.MustCompile(`"(?:containerPort|port)": ` + port + `\b`).MatchString(object)
	byFlag := regexp.MustCompile("`--[a-z-]+-bind-address=[\\d.]*:" + port + "`").MatchString(c.page.prose)
	if !inChart && !byFlag {
		return fmt.Errorf("%s has no port %s", positional[1], port)
	}
	return nil
}
