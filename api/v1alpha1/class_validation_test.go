package v1alpha1_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

const (
	saysEndpointNeeded  = "endpoint is needed except for source kubernetes"
	saysNamespaceNeeded = "source kubernetes needs kubernetes.namespace"
	saysEndpointForm    = "endpoint must be an http or https URL without user info, query or fragment"
)

// consul is the spec of a class of source consul with more fields.
func consul(text string) string {
	return "{source: consul, endpoint: 'http://consul:8500', " + text + "}"
}

// list is a YAML list of n different items.
func list(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("a%d", i)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// common are the cases that hold for both kinds of class. inNamespace is what a
// reference to a Secret needs beside the name.
func common(inNamespace string) map[string]verdict {
	endpoint := func(text string) string { return "{source: vault, endpoint: '" + text + "'}" }
	limits := func(text string) string { return consul("limits: {" + text + "}") }
	a254 := strings.Repeat("a", 254)
	return map[string]verdict{
		"source consul is accepted":                          {spec: "{source: consul, endpoint: 'http://consul:8500'}"},
		"source vault is accepted":                           {spec: "{source: vault, endpoint: 'https://vault.infra:8200'}"},
		"another source is refused":                          {"{source: etcd, endpoint: 'http://e'}", `supported values: "consul", "vault", "kubernetes"`},
		"no source is refused":                               {"{endpoint: 'http://e'}", "spec.source: Required value"},
		"consul without endpoint is refused":                 {"{source: consul}", saysEndpointNeeded},
		"vault without endpoint is refused":                  {"{source: vault}", saysEndpointNeeded},
		"an empty endpoint is refused":                       {endpoint(""), saysEndpointForm},
		"an endpoint without a scheme is refused":            {endpoint("vault:8200"), saysEndpointForm},
		"another scheme is refused":                          {endpoint("ftp://vault"), saysEndpointForm},
		"a scheme without a host is refused":                 {endpoint("https://"), saysEndpointForm},
		"user info is refused":                               {endpoint("https://user:password@vault:8200"), saysEndpointForm},
		"a user alone is refused":                            {endpoint("https://user@vault"), saysEndpointForm},
		"a query is refused":                                 {endpoint("https://vault/?token=1"), saysEndpointForm},
		"a query without a path is refused":                  {endpoint("https://vault?token=1"), saysEndpointForm},
		"a fragment is refused":                              {endpoint("https://vault/#a"), saysEndpointForm},
		"an at sign in the path is refused":                  {endpoint("https://a/b@vault"), saysEndpointForm},
		"a space in the host is refused":                     {endpoint("https://vault infra"), saysEndpointForm},
		"a space in the path is refused":                     {endpoint("https://vault/a b"), saysEndpointForm},
		"a line break at the end is refused":                 {`{source: vault, endpoint: "https://vault\n"}`, saysEndpointForm},
		"a datacenter of 254 characters is refused":          {consul("consul: {datacenter: " + a254 + "}"), "spec.consul.datacenter: Too long: may not be more than 253"},
		"a Consul namespace of 254 characters is refused":    {consul("consul: {namespace: " + a254 + "}"), "spec.consul.namespace: Too long: may not be more than 253"},
		"a partition of 254 characters is refused":           {consul("consul: {partition: " + a254 + "}"), "spec.consul.partition: Too long: may not be more than 253"},
		"a Vault namespace of 254 characters is refused":     {"{source: vault, endpoint: 'http://v', vault: {namespace: " + a254 + "}}", "spec.vault.namespace: Too long: may not be more than 253"},
		"a token Secret's name of 254 characters is refused": {consul("tokenSecret: {" + inNamespace + "name: " + a254 + "}"), "spec.tokenSecret.name: Too long: may not be more than 253"},
		"a token Secret's key of 254 characters is refused":  {consul("tokenSecret: {" + inNamespace + "name: a, key: " + a254 + "}"), "spec.tokenSecret.key: Too long: may not be more than 253"},
		"a CA's name of 254 characters is refused":           {consul("tls: {caSecret: {" + inNamespace + "name: " + a254 + "}}"), "spec.tls.caSecret.name: Too long: may not be more than 253"},
		"a CA's key of 254 characters is refused":            {consul("tls: {caSecret: {" + inNamespace + "name: a, key: " + a254 + "}}"), "spec.tls.caSecret.key: Too long: may not be more than 253"},
		"a CA without a name is refused":                     {consul("tls: {caSecret: {" + inNamespace + "key: a}}"), "spec.tls.caSecret.name: Required value"},
		"a path is accepted":                                 {spec: endpoint("https://gateway/vault/v1")},
		"a trailing slash is accepted":                       {spec: endpoint("https://vault:8200/")},
		"an IPv6 address is accepted":                        {spec: endpoint("http://[::1]:8200")},
		"an endpoint of 2049 characters is refused":          {endpoint("http://" + strings.Repeat("a", 2042)), "2048"},
		"keys are accepted":                                  {spec: consul("keys: ['secret/{cluster}/{namespace}/**', 'a/*/b']")},
		"an empty list of keys is refused":                   {consul("keys: []"), "spec.keys in body should have at least 1 items"},
		"an empty key is refused":                            {consul("keys: ['']"), "spec.keys[0]"},
		"a key twice is refused":                             {consul("keys: [a, a]"), "Duplicate value"},
		"256 keys are accepted":                              {spec: consul("keys: " + list(256))},
		"257 keys are refused":                               {consul("keys: " + list(257)), "at most 256 items"},
		"a key of 1025 characters is refused":                {consul("keys: [" + strings.Repeat("a", 1025) + "]"), "1024"},
		"a selector of clusters is accepted":                 {spec: consul("clusters: {matchLabels: {env: prod}}")},
		"an empty selector is accepted":                      {spec: consul("clusters: {}")},
		"options of consul are accepted":                     {spec: consul("consul: {datacenter: dc1, namespace: team, partition: p}")},
		"options of vault are accepted":                      {spec: "{source: vault, endpoint: 'http://v', vault: {namespace: team}}"},
		"limits are accepted":                                {spec: limits("requestsPerSecond: 1, burst: 1, concurrency: 1, minIntervalSeconds: 1")},
		"a rate of zero is refused":                          {limits("requestsPerSecond: 0"), "spec.limits.requestsPerSecond"},
		"a burst of zero is refused":                         {limits("burst: 0"), "spec.limits.burst"},
		"a concurrency of zero is refused":                   {limits("concurrency: 0"), "spec.limits.concurrency"},
		"a shortest interval of zero is refused":             {limits("minIntervalSeconds: 0"), "spec.limits.minIntervalSeconds"},
		"a server name is accepted":                          {spec: consul("tls: {serverName: store.internal}")},
		"a server name of 254 characters is refused": {
			consul("tls: {serverName: " + a254 + "}"), "spec.tls.serverName: Too long: may not be more than 253",
		},
		"a token Secret without a name is refused": {consul("tokenSecret: {key: token}"), "spec.tokenSecret.name: Required value"},
	}
}

func TestDynamicConfigClass(t *testing.T) {
	cases := common("")
	maps.Copy(cases, map[string]verdict{
		"kubernetes needs neither endpoint nor namespace": {spec: "{source: kubernetes}"},
		"a token Secret of its own namespace is accepted": {spec: consul("tokenSecret: {name: a, key: b}")},
		"a token Secret of another namespace is refused":  {consul("tokenSecret: {name: a, namespace: b}"), `unknown field "spec.tokenSecret.namespace"`},
		"a CA of another namespace is refused":            {consul("tls: {caSecret: {name: a, namespace: b}}"), `unknown field "spec.tls.caSecret.namespace"`},
		"namespaces are refused":                          {consul("namespaces: [a]"), `unknown field "spec.namespaces"`},
		"another namespace to read in is refused":         {"{source: kubernetes, kubernetes: {namespace: a}}", `unknown field "spec.kubernetes"`},
		"an empty name of a token Secret is refused":      {consul("tokenSecret: {name: ''}"), "spec.tokenSecret.name"},
	})
	maps.Copy(cases, vaultCases())
	checkVerdicts(t, "DynamicConfigClass", cases)
}

func TestClusterDynamicConfigClass(t *testing.T) {
	cases := common("namespace: b, ")
	maps.Copy(cases, map[string]verdict{
		"kubernetes with a namespace is accepted":           {spec: "{source: kubernetes, kubernetes: {namespace: platform}}"},
		"kubernetes without options is refused":             {"{source: kubernetes}", saysNamespaceNeeded},
		"kubernetes with empty options is refused":          {"{source: kubernetes, kubernetes: {}}", "spec.kubernetes.namespace: Required value"},
		"kubernetes with an empty namespace is refused":     {"{source: kubernetes, kubernetes: {namespace: ''}}", "spec.kubernetes.namespace"},
		"a namespace of 64 characters is refused":           {"{source: kubernetes, kubernetes: {namespace: " + strings.Repeat("a", 64) + "}}", "63"},
		"namespaces are accepted":                           {spec: consul("namespaces: [team-a, team-b]")},
		"an empty list of namespaces is refused":            {consul("namespaces: []"), "spec.namespaces in body should have at least 1 items"},
		"an empty namespace is refused":                     {consul("namespaces: ['']"), "spec.namespaces[0]"},
		"a namespace twice is refused":                      {consul("namespaces: [a, a]"), "Duplicate value"},
		"a namespace that is too long is refused":           {consul("namespaces: [" + strings.Repeat("a", 64) + "]"), "63"},
		"1024 namespaces are accepted":                      {spec: consul("namespaces: " + list(1024))},
		"1025 namespaces are refused":                       {consul("namespaces: " + list(1025)), "at most 1024 items"},
		"a token Secret with its namespace is accepted":     {spec: consul("tokenSecret: {name: a, namespace: b}")},
		"a token Secret without a namespace is refused":     {consul("tokenSecret: {name: a}"), "spec.tokenSecret.namespace: Required value"},
		"a CA with its namespace is accepted":               {spec: consul("tls: {caSecret: {name: a, namespace: b, key: c}}")},
		"a CA without a namespace is refused":               {consul("tls: {caSecret: {name: a}}"), "spec.tls.caSecret.namespace: Required value"},
		"a token Secret with an empty namespace is refused": {consul("tokenSecret: {name: a, namespace: ''}"), "spec.tokenSecret.namespace"},
	})
	maps.Copy(cases, vaultCases())
	checkVerdicts(t, "ClusterDynamicConfigClass", cases)
}
