package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/testbin"
	"dynamic-config.rs/fleet/internal/testenv"
)

// patience is how long something may take that a script waits for.
const patience = time.Minute

// The scripts run the program against two real API servers. The statuses in them are
// written by the scripts, as hub and agent would.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setUp(env, workload, hub) },
		Cmds:                commands,
	})
}

type command = func(ts *testscript.TestScript, neg bool, args []string)

var commands = map[string]command{
	"apply": apply, "target": target, "exits": exits, "await": await, "hub-handles": hubHandles, "shows": shows, "waits": waits,
}

// setUp gives a script a namespace in both clusters, NS, and a kubeconfig with the
// contexts workload and hub.
func setUp(env *testscript.Env, workload, hub *testenv.Cluster) error {
	namespace := "script-" + regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(filepath.Base(env.WorkDir), "-")
	ctx := env.T().(interface{ Context() context.Context }).Context()
	config := clientcmdapi.NewConfig()
	for name, cluster := range map[string]*testenv.Cluster{"workload": workload, "hub": hub} {
		env.Values[name] = cluster
		err := cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		if client.IgnoreAlreadyExists(err) != nil {
			return err
		}
		config.Clusters[name] = &clientcmdapi.Cluster{Server: cluster.Config.Host, CertificateAuthorityData: cluster.Config.CAData}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: cluster.Config.CertData, ClientKeyData: cluster.Config.KeyData}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	}
	config.Clusters["gone"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.Contexts["gone"] = &clientcmdapi.Context{Cluster: "gone", Namespace: namespace}
	config.CurrentContext = "workload"
	kubectl, err := testbin.Path("kubectl")
	if err != nil {
		return err
	}
	env.Setenv("PATH", filepath.Dir(kubectl)+string(filepath.ListSeparator)+env.Getenv("PATH"))
	env.Setenv("NS", namespace)
	env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "kubeconfig"))
	return clientcmd.WriteToFile(*config, env.Getenv("KUBECONFIG"))
}

// clusterOf is the cluster that a script calls workload or hub.
func clusterOf(ts *testscript.TestScript, name string) client.Client {
	cluster, ok := ts.Value(name).(*testenv.Cluster)
	if !ok {
		ts.Fatalf("no cluster is called %q", name)
	}
	return cluster.Client
}

// scriptContext ends with the script.
func scriptContext(ts *testscript.TestScript) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	ts.Defer(cancel)
	return ctx
}

// objectsIn reads the objects of a file, with $NAME replaced.
func objectsIn(ts *testscript.TestScript, file string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(os.Expand(ts.ReadFile(file), ts.Getenv), "\n---\n") {
		object := &unstructured.Unstructured{}
		ts.Check(yaml.Unmarshal([]byte(document), &object.Object))
		all = append(all, object)
	}
	return all
}

// apply CLUSTER FILE makes or changes objects, with the status in the file.
func apply(ts *testscript.TestScript, _ bool, args []string) {
	c, ctx := clusterOf(ts, args[0]), scriptContext(ts)
	for _, object := range objectsIn(ts, args[1]) {
		if object.GetNamespace() == "" && !strings.HasPrefix(object.GetKind(), "Cluster") && object.GetKind() != "SpokeCluster" {
			object.SetNamespace(ts.Getenv("NS"))
		}
		status, hasStatus := object.Object["status"]
		current := object.DeepCopy()
		err := c.Create(ctx, current)
		if apierrors.IsAlreadyExists(err) {
			ts.Check(c.Get(ctx, client.ObjectKeyFromObject(object), current))
			object.SetResourceVersion(current.GetResourceVersion())
			current = object.DeepCopy()
			err = c.Update(ctx, current)
		}
		ts.Check(err)
		if hasStatus {
			current.Object["status"] = status
			ts.Check(c.Status().Update(ctx, current))
		}
	}
}

// target RENDER FILE writes the target of a Render as the agent does.
func target(ts *testscript.TestScript, _ bool, args []string) {
	ctx := scriptContext(ts)
	render := &v1alpha1.DynamicConfigRender{}
	ts.Check(clusterOf(ts, "workload").Get(ctx, client.ObjectKey{Namespace: ts.Getenv("NS"), Name: args[0]}, render))
	for _, object := range objectsIn(ts, args[1]) {
		object.SetNamespace(render.Namespace)
		object.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByValue, v1alpha1.LabelRenderUID: string(render.UID)})
		object.SetAnnotations(map[string]string{
			v1alpha1.AnnotationRender: render.Name, v1alpha1.AnnotationContentID: "keyed-content-id",
			v1alpha1.AnnotationRenderGeneration: strconv.FormatInt(render.Generation, 10), v1alpha1.AnnotationDataKeys: "2",
		})
		ts.Check(clusterOf(ts, "workload").Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership))
	}
}

// exits CODE PROGRAM ARG... runs a program that has to end with a code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("%v ended with %d, want %d", args[1:], got, want)
	}
}

// waits PROGRAM ARG... runs a program until it succeeds.
func waits(ts *testscript.TestScript, _ bool, args []string) {
	err := wait.PollUntilContextTimeout(scriptContext(ts), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		return ts.Exec(args[0], args[1:]...) == nil, nil
	})
	ts.Check(err)
}

// shows FILE PATTERN... wants each pattern in a file, with blanks for any blanks.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	text := strings.Join(strings.Fields(ts.ReadFile(args[0])), " ")
	for _, pattern := range args[1:] {
		if regexp.MustCompile(pattern).MatchString(text) == neg {
			ts.Fatalf("pattern %q (unwanted: %v) in:\n%s", pattern, neg, ts.ReadFile(args[0]))
		}
	}
}

// await FILE PATTERN waits until a file that a background program writes has a pattern.
func await(ts *testscript.TestScript, _ bool, args []string) {
	file, pattern := ts.MkAbs(args[0]), regexp.MustCompile(args[1])
	err := wait.PollUntilContextTimeout(scriptContext(ts), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		text, err := os.ReadFile(file)
		return err == nil && pattern.Match(text), nil
	})
	if err != nil {
		ts.Fatalf("%s never had %q:\n%s", args[0], args[1], ts.ReadFile(args[0]))
	}
}

// hub-handles RENDER FILE lets a request for a sync be handled, by writing the status in
// the file, once the request is there.
func hubHandles(ts *testscript.TestScript, _ bool, args []string) {
	ctx := scriptContext(ts)
	key := client.ObjectKey{Namespace: ts.Getenv("NS"), Name: args[0]}
	var status v1alpha1.DynamicConfigRenderStatus
	ts.Check(yaml.UnmarshalStrict([]byte(ts.ReadFile(args[1])), &status))
	done := make(chan struct{})
	go func() { // ends with the script, which waits for it
		defer close(done)
		_ = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			render := &v1alpha1.DynamicConfigRender{}
			if err := clusterOf(ts, "workload").Get(ctx, key, render); err != nil {
				return false, err
			}
			stamp := render.Annotations[v1alpha1.AnnotationSyncRequestedAt]
			if stamp == "" || stamp == render.Status.LastHandledSync {
				return false, nil
			}
			render.Status = status
			render.Status.LastHandledSync = stamp
			return true, clusterOf(ts, "workload").Status().Update(ctx, render)
		})
	}()
	ts.Defer(func() { <-done })
}
