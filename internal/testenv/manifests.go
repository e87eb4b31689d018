package testenv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// fieldManager is the manager of what ApplyDir applies.
const fieldManager = client.FieldOwner("testenv")

// ApplyDir applies every object in the .yaml files of a folder, namespaces
// first, except for a kustomization.
func (c *Cluster) ApplyDir(ctx context.Context, dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no .yaml file in %s", dir)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		more, err := readObjects(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		objects = append(objects, more...)
	}
	for _, namespaces := range []bool{true, false} {
		for _, object := range objects {
			if (object.GetKind() == "Namespace") != namespaces {
				continue
			}
			apply := client.ApplyConfigurationFromUnstructured(object)
			if err := c.Client.Apply(ctx, apply, fieldManager, client.ForceOwnership); err != nil {
				return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}

// readObjects reads the documents of a YAML file.
func readObjects(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
