package docs_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// validators say, by program, what is wrong with a command. A program that is not here
// may not stand on a page.
func validators() map[string]func(*stage, *command) error {
	return map[string]func(*stage, *command) error{
		// Ours: parsed, and where a page shows what they print, run.
		"dynconf": dynconfCommand, "spoke": spokeCommand, "make": makeCommand,
		// Run on a real API server that holds what the charts install.
		"kubectl": kubectlCommand,
		// Parsed by the real program; charts are rendered.
		"helm": helmCommand, "buf": bufCommand,
		// Answered by the handlers that the hub serves.
		"curl": curlCommand,
		// Run, or held to the packages, tests and flags that there are.
		"go": goCommand,
		// Their options parsed by the program itself.
		"git": gitCommand, "ln": gnu, "mv": gnu, "cmp": gnu, "cut": gnu, "cat": gnu, "grep": gnu, "sha256sum": gnu, "date": gnu,
		// Builtins of the shell: run, or what they run is checked.
		"echo": builtin, "printf": builtin, "umask": builtin, ".": sourced, "exec": replaced, "bash": scriptCommand,
		// Not on every machine: held to a list of what they take.
		"openssl": listed, "jq": jqCommand, "docker": dockerCommand, "skopeo": listed, "cosign": listed, "kind": listed, "vault": listed,
	}
}

// sayings are words in a sentence that look like a command and are none.
var sayings = []string{
	"certificate required", "bad certificate", "unknown certificate authority", "expired certificate", // alerts of TLS
	`unknown field "spec.tokenSecret.namespace"`, `unknown field "spec.namespaces"`, "shape file needs file", // answers of API servers
	"no API server: name a file with --kubeconfig; in a pod, its ServiceAccount is used", // an error of the agent
	"default-src 'none'", // a header
	"get clusters",       // of dynconf, on its own page
}

func TestCommands_AreAllValid(t *testing.T) {
	s := newStage(t)
	counts := map[string]int{}
	said := map[string]bool{}
	for _, c := range commands(t) {
		name, isCommand := c.program()
		if !isCommand {
			continue
		}
		if slices.Contains(sayings, c.sentence) {
			said[c.sentence] = true
			continue
		}
		counts[name]++
		if err := s.validate(c); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	for _, text := range sayings {
		if !said[text] {
			t.Errorf("no page says %q any more", text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d %s", counts[name], name)
	}
	if s.compared < 12 {
		t.Errorf("only %d outputs of dynconf are compared", s.compared)
	}
	for name := range validators() {
		if counts[name] == 0 {
			t.Errorf("no page runs %s any more: remove its validator", name)
		}
	}
}

// program is what a command runs. A single word in a sentence is a name, and no command.
func (c *command) program() (name string, isCommand bool) {
	first := c.words[0]
	inSentence := len(c.words) > 1 && program.MatchString(first) && strings.Contains(c.sentence, " ")
	return filepath.Base(first), c.inBlock || inSentence
}

// alone are the programs that work without any argument.
var alone = []string{"cat", "date", "make", "sha256sum"}

// validate says what is wrong with a command.
func (s *stage) validate(c *command) error {
	for _, word := range c.words {
		if err := artifact(word); err != nil {
			return err
		}
	}
	name, _ := c.program()
	check, known := validators()[name]
	switch {
	case known && len(c.words) == 1 && !slices.Contains(alone, name):
		return fmt.Errorf("%s needs arguments", name)
	case known:
		return check(s, c)
	case strings.Contains(c.words[0], "/"):
		return script(s, c.words[0])
	}
	return fmt.Errorf("nothing checks the program %s: write a validator, or say in sayings that this is no command", name)
}

// Each validator can fail, and so can each part of one.
func TestCommands_AWrongLineIsRefused(t *testing.T) {
	s := newStage(t)
	for line, want := range map[string]string{
		"dynconf get rendres":                  "unknown",
		"dynconf why":                          "arg",
		"kubectl dynconf get renders --colour": "unknown flag",
		"spoke --no-such-flag":                 "not defined",
		"spoke --cluster=x --stale-after=soon": "invalid value",
		"make no-such-target":                  "no target",
		"make demo NO_SUCH=1":                  "no variable",
		`make bench BENCH="-clusters 3"`:       "-clusters",

		"kubectl gett pods":                                                                          "unknown command",
		"kubectl config unzet users":                                                                 "subcommand",
		"kubectl get spokeclusters --wide":                                                           "unknown flag",
		"kubectl get rendres":                                                                        "resource type",
		"kubectl -n shop get secret nobody":                                                          "not found",
		"kubectl -n dynamic-config get leases":                                                       "no namespace",
		"kubectl --context nowhere get spokeclusters":                                                "context was not found",
		"kubectl -n shop get secret database -o jsonpath='{.data'":                                   "unclosed",
		"kubectl -n shop get secret database -o jsonpath='{.dta}'":                                   "shows nothing",
		"kubectl -n shop wait --for=jsonpath dynamicconfigrender/database":                           "jsonpath",
		`kubectl -n shop patch dynamicconfigrender database --type=merge -p '{"spec":{"targt":{}}}'`: "unknown field",
		`kubectl -n shop patch dynamicconfigrender database --type=merge -p '{"spec":'`:              "unexpected",
		`kubectl -n shop patch externalsecret database --type=merge -p '{"spec":'`:                   "JSON",
		"kubectl -n dynamic-config-system scale deployment fleet-spoke --replicas=0":                 "not found",
		"kubectl -n dynamic-config-system port-forward deploy/dynamic-config-hub 9999":               "9999",
		"kubectl -n dynamic-config-system logs deployment/hub":                                       "not found",
		"kubectl -n dynamic-config-system rollout status deployment/spoke":                           "not found",
		"kubectl create clusterrolebinding x --clusterrole=no-viewer --serviceaccount=default:x":     "not found",
		"kubectl get --raw /openid/v1/keys":                                                          "not find",
		"kubectl apply -f nothing.yaml":                                                              "nothing.yaml",
		"kubectl apply -k deploy/kustomize/agent":                                                    "deploy/kustomize/agent",
		"kubectl -n dynamic-config-system create token dynamic-config-agent":                         "not found",
		"kubectl -n shop get secret database -o json | jq -S .dta":                                   "nothing at",

		"helm instal hub deploy/charts/hub":                                                    "unknown command",
		"helm get manifesto hub":                                                               "subcommand",
		"helm uninstall hub --namespace dynamic-config-system --keep":                          "unknown flag",
		"helm uninstall agent --namespace dynamic-config-system":                               "no release",
		"helm uninstall hub --namespace dynamic-config":                                        "namespace",
		"helm install hub deploy/charts/hub --namespace dynamic-config-system --set replica=3": "replica",
		"helm install spoke deploy/charts/spoke --namespace dynamic-config-system":             "hub.ca needs",
		"helm upgrade hub deploy/charts/agent --namespace dynamic-config-system":               "no chart",
		"helm push out/release/hub_0.1.0.tgz oci://registry.example/fleet/charts":              "release.sh",
		"helm push deploy/charts/hub oci://registry.example/fleet/charts":                      "want",
		"buf braking":                                                "unknown command",
		"curl localhost:8080/debug/loglevels":                        "404",
		"curl -X POST localhost:8080/debug/loglevel":                 "405",
		"curl -X PUT -d loud localhost:8080/debug/loglevel":          "400",
		"curl https://localhost:8444/clusters":                       "404",
		"curl localhost:9090/metrics":                                "no port",
		"curl --verbosely localhost:8080/debug/loglevel":             "unknown flag",
		"go test ./agent":                                            "agent",
		"go test ./spoke -run TestNothingOfTheKind":                  "matches no",
		"go test ./spoke -run '^$' -bench NothingOfTheKind":          "matches no",
		"go test -idel 10m ./spoke":                                  "-idel",
		"go run ./e2e/banch":                                         "e2e/banch",
		"go run ./e2e/bench -clusters 3":                             "-clusters",
		"go list -deps ./cmd/agent":                                  "agent",
		"go tool pprof -top http://localhost:6060/debug/pprof/heaps": "404",
		"go tool pprof -tip http://localhost:6060/debug/pprof/heap":  "tip",
		"go tool pprof -top http://localhost:7070/debug/pprof/heap":  "no port",
		"go fly x": "go fly", "go test ./spoke -run": "no value", "go test -run TestX": "no package",

		"git tag --seal v0.1.0": "seal", "git tog v0.1.0": "not a git command",
		"ln --soft a b": "soft", "mv --gently a b": "gently", "cmp --same a b": "same", "cut -q 1": "q",
		"cat --loud a": "loud", "grep --colour-me a": "colour-me", "sha256sum --chek SHA256SUMS": "chek", "date --utx": "utx",
		"printf": "needs arguments", "echo x | printf -v": "usage", "dynconf": "needs arguments", "go test": "nothing checks", "make demo NAME": "no target", "umask 9": "octal",
		". nothing.sh": "nothing.sh", `exec dynconf get rendres`: "unknown", "bash .ci/walk": ".ci/walk", "tools/kind/walk.sh": "walk.sh",
		"openssl rand -hex": "arg", "openssl rend 32": "openssl rend", "jq -S '.data['": "plain path", "jq --sorted .data": "unknown flag",
		"docker build -f deploy/Dockerfile --target hub .":          "deploy/Dockerfile",
		"docker build -f deploy/images/Dockerfile --target agent .": "agent",
		"docker build --file-name deploy/images/Dockerfile .":       "unknown flag",
		"docker biuld .": "docker biuld",
		"skopeo copy --al oci:out/images/hub docker://registry.example/fleet/hub:v0.1.0":  "unknown flag",
		"skopeo copy --all oci:out/images/agent docker://registry.example/fleet/hub:v0.1": "out/images/agent",
		"cosign attest --type cyclonedx --subject x y":                                    "unknown flag",
		"kind load archive out/images/hub.tar":                                            "kind load archive",
		"vault kv got":                                                                    "vault kv got",
		"wget https://localhost:8444":                                                     "nothing checks",
	} {
		t.Run(line, func(t *testing.T) {
			all, err := calls(line)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				c.inBlock, c.at, c.page = true, "here", &page{}
				if err = s.validate(c); err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want an error with %q, got %v", want, err)
			}
		})
	}
}
