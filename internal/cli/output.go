package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"dynamic-config.rs/fleet/internal/cli/kube"
)

// The formats that are no printer of cli-runtime's.
const (
	formatTable = ""
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// objectOutput are the flags of a command that prints objects, as kubectl get has them.
type objectOutput struct {
	flags     *genericclioptions.PrintFlags
	noHeaders bool
}

func newObjectOutput(cmd *cobra.Command) *objectOutput {
	o := &objectOutput{flags: genericclioptions.NewPrintFlags("").WithTypeSetter(kube.Scheme())}
	o.flags.AddFlags(cmd)
	cmd.Flag("output").Usage = "Output format. One of: (json, yaml, name, wide, jsonpath=..., go-template=..., ...)"
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Don't print headers (by default they are printed)")
	completeWith(cmd, "output", formatJSON, formatYAML, "name", formatWide)
	return o
}

// asTable says whether rows are wanted, and whether all columns of them.
func (o *objectOutput) asTable() (table, wide bool) {
	wide = *o.flags.OutputFormat == formatWide
	return wide || *o.flags.OutputFormat == formatTable && *o.flags.TemplatePrinterFlags.TemplateArgument == "", wide
}

// tablePrinter prints rows.
func (o *objectOutput) tablePrinter(withNamespace bool) printers.ResourcePrinter {
	_, wide := o.asTable()
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: o.noHeaders, Wide: wide, WithNamespace: withNamespace})
}

// listOf is one list of objects of any kinds, as kubectl prints them.
func listOf(objects []client.Object) (runtime.Object, error) {
	list := &corev1.List{Items: []runtime.RawExtension{}}
	for _, object := range objects {
		if err := setKind(object); err != nil {
			return nil, err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: object})
	}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("List"))
	return list, nil
}

// setKind restores what typed clients leave out, and drops what only confuses.
func setKind(object client.Object) error {
	kinds, _, err := kube.Scheme().ObjectKinds(object)
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(kinds[0])
	object.SetManagedFields(nil)
	return nil
}

// dataOutput are the flags of a command that prints data of its own.
type dataOutput struct{ format string }

func newDataOutput(cmd *cobra.Command) *dataOutput {
	o := &dataOutput{}
	cmd.Flags().StringVarP(&o.format, "output", "o", "", "Output format. One of: (json, yaml)")
	completeWith(cmd, "output", formatJSON, formatYAML)
	return o
}

// print writes data as JSON or YAML, or lets text write it for people.
func (o *dataOutput) print(a *app, data any, text func() error) error {
	switch o.format {
	case formatTable:
		return text()
	case formatJSON:
		encoder := json.NewEncoder(a.Out)
		encoder.SetIndent("", "    ")
		return encoder.Encode(data)
	case formatYAML:
		out, err := yaml.Marshal(data)
		if err != nil {
			return err
		}
		_, err = a.Out.Write(out)
		return err
	}
	return failf("json and yaml are there", "output format %q is unknown", o.format)
}

// printTable writes rows with headers.
func (a *app) printTable(table *metav1.Table) error {
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, a.Out)
}

// nameOf is kind/name of an object, as kubectl prints it.
func nameOf(object client.Object) string {
	kinds, _, err := kube.Scheme().ObjectKinds(object)
	if err != nil {
		return object.GetName()
	}
	return fmt.Sprintf("%s/%s", strings.ToLower(kinds[0].Kind), object.GetName())
}
