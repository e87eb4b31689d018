package v1alpha1_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// table is what kubectl asks for to print objects.
const table = "application/json;as=Table;v=v1;g=meta.k8s.io"

func TestColumns(t *testing.T) {
	httpClient, err := rest.HTTPClientFor(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	class := []string{"Name", "Source", "Endpoint (wide)", "Ready", "Status", "Renders", "Failed", "Age", "Message (wide)"}
	for resource, want := range map[string][]string{
		"dynamicconfigrenders": {
			"Name", "Class", "Key (wide)", "ConfigMap", "Secret", "Ready", "Status", "Rendered", "Age", "Message (wide)",
		},
		"dynamicconfigclasses":        class,
		"clusterdynamicconfigclasses": class,
		"spokeclusters":               {"Name", "Accepted", "Connected", "Renders", "Ready", "Failed", "Agent (wide)", "Age"},
	} {
		t.Run(resource, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				cluster.Config.Host+"/apis/dynamic-config.rs/v1alpha1/"+resource, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Accept", table)
			response, err := httpClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("%s", response.Status)
			}
			var got metav1.Table
			if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			var columns []string
			for _, c := range got.ColumnDefinitions {
				if c.Priority > 0 {
					c.Name += " (wide)"
				}
				columns = append(columns, c.Name)
			}
			if diff := cmp.Diff(want, columns); diff != "" {
				t.Error(diff)
			}
		})
	}
}
