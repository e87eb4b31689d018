package enrol

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

func TestCompact(t *testing.T) {
	for name, c := range map[string]struct{ text, want, err string }{
		"a public key is taken without blanks":  {`{"keys": [{"kty": "RSA", "kid": "a", "n": "n", "e": "e"}]}`, `{"keys":[{"kty":"RSA","kid":"a","n":"n","e":"e"}]}`, ""},
		"a private RSA or EC key is refused":    {`{"keys":[{"kty":"EC","d":"secret"}]}`, "", "private or a symmetric"},
		"a symmetric key is refused":            {`{"keys":[{"kty":"oct","k":"secret"}]}`, "", "private or a symmetric"},
		"one bad key among good ones counts":    {`{"keys":[{"kty":"RSA"},{"p":"secret"}]}`, "", "private or a symmetric"},
		"an empty set is refused":               {`{"keys":[]}`, "", "empty"},
		"no set is refused":                     {`{}`, "", "empty"},
		"what is no JSON is refused, unquoted":  {`<html>secret`, "", "no JSON"},
		"a set of something else is not quoted": {`{"keys":["secret"]}`, "", "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := compact([]byte(c.text))
			if c.err == "" {
				if err != nil || got != c.want {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func TestSharesKey(t *testing.T) {
	set := func(keys ...string) *v1alpha1.ClusterKeys {
		return &v1alpha1.ClusterKeys{Issuer: "i", JWKS: `{"keys":[` + strings.Join(keys, ",") + `]}`}
	}
	const a, b = `{"kty":"RSA","kid":"1","n":"a","e":"AQAB"}`, `{"kty":"RSA","kid":"1","n":"b","e":"AQAB"}`
	for name, c := range map[string]struct {
		one, other *v1alpha1.ClusterKeys
		want       bool
	}{
		"a rotation keeps one":                       {set(a, b), set(b), true},
		"another cluster has other keys of one ID":   {set(a), set(b), false},
		"a key that got another ID is the same key":  {set(a), set(strings.Replace(a, `"1"`, `"2"`, 1)), true},
		"what does not parse has nothing in common":  {set("x"), set("x"), false},
		"an empty set has nothing in common, either": {set(), set(a), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SharesKey(c.one, c.other); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if diff := cmp.Diff([]string{"1", "1"}, KeyIDs(set(a, b))); diff != "" {
		t.Error(diff)
	}
}

func TestScript(t *testing.T) {
	install := Install{Cluster: "prod-eu", HubAddress: "hub.example:8443", CAFile: "hub-ca.crt", Namespace: "dynamic-config"}
	want := `helm install spoke deploy/charts/spoke \
  --namespace dynamic-config --create-namespace \
  --set cluster=prod-eu \
  --set hub.address=hub.example:8443 \
  --set-file hub.ca.pem=hub-ca.crt
# or, outside the cluster, see docs/install.md:
# spoke --kubeconfig=AGENT_KUBECONFIG --cluster=prod-eu --namespace=dynamic-config --hub-address=hub.example:8443 --hub-ca-file=hub-ca.crt
`
	if diff := cmp.Diff(want, install.Script()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	install.Context, install.Kubeconfig, install.JoinToken = "admin@prod's", "/home/a b/config", "dcj_x"
	want = `kubectl --kubeconfig '/home/a b/config' --context 'admin@prod'\''s' create namespace dynamic-config
kubectl --kubeconfig '/home/a b/config' --context 'admin@prod'\''s' --namespace dynamic-config create secret generic dynamic-config-join-token --from-literal=token=dcj_x
helm install spoke deploy/charts/spoke \
  --namespace dynamic-config --create-namespace \
  --set cluster=prod-eu \
  --set hub.address=hub.example:8443 \
  --set-file hub.ca.pem=hub-ca.crt \
  --set joinToken.secret.name=dynamic-config-join-token \
  --kubeconfig '/home/a b/config' --kube-context 'admin@prod'\''s'
# or, outside the cluster, see docs/install.md:
# spoke --kubeconfig=AGENT_KUBECONFIG --cluster=prod-eu --namespace=dynamic-config --hub-address=hub.example:8443 --hub-ca-file=hub-ca.crt --join-token-file=FILE_WITH_THE_TOKEN
`
	if diff := cmp.Diff(want, install.Script()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestQuote_AShellReadsTheSameWord(t *testing.T) {
	for _, word := range []string{"", "a", "a b", "it's", "$(id)", "`id`", "a\nb", `\`, `"`, "[::1]:8443", "*", "~", "a;b", "#a"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q (%v)", word, out, err)
		}
	}
}
