package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/internal/reasons"
	"dynamic-config.rs/fleet/render"
)

// stdin is the file name that means the standard input.
const stdin = "-"

// maxDocument is how much of a file is read: more than the renderer takes, so that it
// is the renderer that refuses.
const maxDocument = 5 << 20

// documentFlags say which local file is the document.
type documentFlags struct {
	file   string
	format string
}

func (d *documentFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&d.file, "filename", "f", "", "File with the document; - for the standard input")
	cmd.Flags().StringVar(&d.format, "format", "", "Format of the document where its name does not tell: json, yaml, toml, ini, properties")
	completeWith(cmd, "format", "json", "yaml", "toml", "ini", "properties")
	_ = cmd.MarkFlagRequired("filename") // it is there: it was added above
}

// read reads the document; format counts where the flags state none.
func (d *documentFlags) read(in io.Reader, format v1alpha1.Format) (render.Document, error) {
	if d.format != "" {
		format = v1alpha1.Format(d.format)
	}
	doc := render.Document{Key: filepath.Base(d.file), Format: format}
	if d.file == stdin {
		doc.Key = "stdin"
	} else {
		file, err := os.Open(d.file)
		if err != nil {
			return doc, failf("-f names the document", "%w", err)
		}
		defer file.Close()
		in = file
	}
	var err error
	doc.Text, err = io.ReadAll(io.LimitReader(in, maxDocument))
	return doc, err
}

// newRender renders a local document as the hub would.
func newRender(a *app) *cobra.Command {
	var from documentFlags
	var target render.Target
	var shape string
	dryRun := true
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Render a local document as the hub would, without any cluster",
		Long: "Renders a local document with the hub's own renderer and prints the result. Nothing is sent anywhere.\n\n" +
			"Shape file prints the file; the other shapes, and -o json or yaml, print names and values.",
		Args: usage(cobra.NoArgs),
	}
	out := newDataOutput(cmd)
	from.add(cmd)
	cmd.Flags().BoolVar(&dryRun, "dry-run", true, "It is always a dry run: only the hub renders into a cluster")
	cmd.Flags().StringVar(&shape, "shape", string(v1alpha1.ShapeFile), "Shape of the target: file, envEntries, entries")
	cmd.Flags().StringVar(&target.File, "file", "", "Data key of shape file; its extension picks the format")
	cmd.Flags().StringVar(&target.Section, "section", "", "Dotted path of the table that is taken")
	completeWith(cmd, "shape", string(v1alpha1.ShapeFile), string(v1alpha1.ShapeEnvEntries), string(v1alpha1.ShapeEntries))
	cmd.RunE = func(*cobra.Command, []string) error {
		if !dryRun {
			return failf("make a Render, and the hub does", "render writes to no cluster")
		}
		doc, err := from.read(a.In, "")
		if err != nil {
			return err
		}
		target.Shape = v1alpha1.Shape(shape)
		if target.Shape == v1alpha1.ShapeFile && target.File == "" {
			return failf("for instance --file config.yaml: its extension picks the format; --shape names others", "shape file needs --file, the data key")
		}
		data, err := render.Render(doc, target)
		if err != nil {
			return refusal(err)
		}
		return a.printData(out, data, target.File)
	}
	return cmd
}

// refusal is the renderer's error with what the page of reasons says of it.
func refusal(err error) error {
	if typed, ok := errors.AsType[*render.Error](err); ok {
		reason, _ := reasons.Lookup(typed.Reason)
		return failf(reason.Text, "%s: %w", typed.Reason, err)
	}
	return err
}

// printData prints rendered data: the one file as it is, entries as YAML.
func (a *app) printData(out *dataOutput, data map[string][]byte, file string) error {
	text := make(map[string]string, len(data))
	for key, value := range data {
		text[key] = string(value)
	}
	if out.format == formatTable && file == "" {
		out.format = formatYAML
	}
	return out.print(a, text, func() error {
		_, err := fmt.Fprint(a.Out, text[file])
		return err
	})
}
