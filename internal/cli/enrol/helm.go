package enrol

import "strings"

const (
	// joinTokenSecret holds the join token in the agent's namespace.
	joinTokenSecret = "dynamic-config-join-token"
	joinTokenKey    = "token"
)

// Install is what the agent's chart needs to know.
type Install struct {
	// Cluster is the name of the SpokeCluster.
	Cluster string
	// HubAddress is the hub's host:port.
	HubAddress string
	// CAFile is a file with the hub's roots.
	CAFile string
	// Namespace of the agent.
	Namespace string
	// Context and Kubeconfig name the workload cluster; empty for the tools' own choice.
	Context, Kubeconfig string
	// JoinToken is a fresh token; empty for none.
	JoinToken string
}

// Script is what installs the agent, for a POSIX shell: one helm command, before it the
// Secret with the join token where there is one, and behind it as a comment what starts
// an agent outside the cluster.
func (i *Install) Script() string {
	namespace := quote(i.Namespace)
	helm := []string{
		"helm install spoke deploy/charts/spoke",
		"--namespace " + namespace + " --create-namespace",
		"--set cluster=" + quote(i.Cluster),
		"--set hub.address=" + quote(i.HubAddress),
		"--set-file hub.ca.pem=" + quote(i.CAFile),
	}
	kubectl := "kubectl" + i.where("--context")
	var script string
	if i.JoinToken != "" {
		script = kubectl + " create namespace " + namespace + "\n" +
			kubectl + " --namespace " + namespace + " create secret generic " + joinTokenSecret +
			" --from-literal=" + joinTokenKey + "=" + quote(i.JoinToken) + "\n"
		helm = append(helm, "--set joinToken.secret.name="+joinTokenSecret)
	}
	if where := i.where("--kube-context"); where != "" {
		helm = append(helm, strings.TrimSpace(where))
	}
	return script + strings.Join(helm, " \\\n  ") + "\n" + i.byHand()
}

// byHand is how the agent is started where no pod is to run it.
func (i *Install) byHand() string {
	flags := []string{
		"--kubeconfig=AGENT_KUBECONFIG", "--cluster=" + quote(i.Cluster), "--namespace=" + quote(i.Namespace),
		"--hub-address=" + quote(i.HubAddress), "--hub-ca-file=" + quote(i.CAFile),
	}
	if i.JoinToken != "" {
		flags = append(flags, "--join-token-file=FILE_WITH_THE_TOKEN")
	}
	command := strings.ReplaceAll(strings.Join(flags, " "), "\n", " ") // a comment is one line
	return "# or, outside the cluster, see docs/install.md:\n# spoke " + command + "\n"
}

// where are the flags that name the workload cluster.
func (i *Install) where(contextFlag string) string {
	flags := ""
	if i.Kubeconfig != "" {
		flags += " --kubeconfig " + quote(i.Kubeconfig)
	}
	if i.Context != "" {
		flags += " " + contextFlag + " " + quote(i.Context)
	}
	return flags
}

// quote makes one word of a text for a POSIX shell.
func quote(text string) string {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("-_./:@%+", r)
	}
	if text != "" && !strings.ContainsFunc(text, special) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
