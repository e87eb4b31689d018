// Package crds embeds the CustomResourceDefinitions, for tests and for commands
// that install them. The files beside it are generated from api/v1alpha1.
package crds

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// files holds the generated CustomResourceDefinitions, one a file.
//
//go:embed *.yaml
var files embed.FS

// All returns every CustomResourceDefinition, in order of file name.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list embedded files: %w", err)
	}
	all := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(names))
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read embedded %s: %w", name, err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			return nil, fmt.Errorf("decode embedded %s: %w", name, err)
		}
		all = append(all, crd)
	}
	return all, nil
}
