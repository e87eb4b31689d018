package v1alpha1_test

import (
	"strings"
	"testing"
)

const (
	saysOneTarget  = "exactly one of configMap and secret is needed"
	saysFileNeeded = "shape file needs file, whose extension is one of json, yaml, yml, toml, ini, properties"
	saysFileOnly   = "file belongs to shape file only"
	saysFileName   = "file must be a data key that ends in .json, .yaml, .yml, .toml, .ini or .properties"
	saysTwoDots    = "file must not start with two dots"
	saysSecretOnly = "type belongs to a secret only"
	saysObjectName = "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?"
)

// target is the spec of a Render with this target.
func target(text string) string { return "{class: c, key: k, target: {" + text + "}}" }

// with is the spec of a Render with more fields than it needs.
func with(text string) string {
	return "{class: c, key: k, target: {secret: a, file: a.json}, " + text + "}"
}

func TestRender_Target(t *testing.T) {
	checkVerdicts(t, "DynamicConfigRender", map[string]verdict{
		"a ConfigMap with a file is accepted":           {spec: target("configMap: a, file: a.json")},
		"a Secret with a file is accepted":              {spec: target("secret: a, file: a.json")},
		"both objects are refused":                      {target("configMap: a, secret: b, file: a.json"), saysOneTarget},
		"no object is refused":                          {target("file: a.json"), saysOneTarget},
		"an absent target is refused":                   {"{class: c, key: k}", "spec.target: Required value"},
		"an empty ConfigMap name is refused":            {target("configMap: '', file: a.json"), "spec.target.configMap"},
		"an empty Secret name is refused":               {target("secret: '', file: a.json"), "spec.target.secret"},
		"a ConfigMap name with capitals is refused":     {target("configMap: App, file: a.json"), saysObjectName},
		"a Secret name with an underscore is refused":   {target("secret: a_b, file: a.json"), saysObjectName},
		"a name with dots is accepted":                  {spec: target("secret: a.b-c.d, file: a.json")},
		"a name of 253 characters is accepted":          {spec: target("secret: " + strings.Repeat("a", 253) + ", file: a.json")},
		"a name of 254 characters is refused":           {target("secret: " + strings.Repeat("a", 254) + ", file: a.json"), "253"},
		"a type of a Secret is accepted":                {spec: target("secret: a, file: a.json, type: kubernetes.io/tls")},
		"a type of a ConfigMap is refused":              {target("configMap: a, file: a.json, type: Opaque"), saysSecretOnly},
		"an empty type is refused":                      {target("secret: a, file: a.json, type: ''"), "spec.target.type"},
		"a type of 254 characters is refused":           {target("secret: a, file: a.json, type: " + strings.Repeat("a", 254)), "spec.target.type: Too long: may not be more than 253"},
		"a ConfigMap name of 254 characters is refused": {target("configMap: " + strings.Repeat("a", 254) + ", file: a.json"), "spec.target.configMap: Too long: may not be more than 253"},
		"adopt is accepted":                             {spec: target("configMap: a, file: a.json, adopt: true")},
		"deletionPolicy Retain is accepted":             {spec: target("configMap: a, file: a.json, deletionPolicy: Retain")},
		"deletionPolicy Delete is accepted":             {spec: target("configMap: a, file: a.json, deletionPolicy: Delete")},
		"another deletionPolicy is refused":             {target("configMap: a, file: a.json, deletionPolicy: Orphan"), `supported values: "Delete", "Retain"`},
		"a field that does not exist is refused":        {target("configMap: a, file: a.json, colour: red"), `unknown field "spec.target.colour"`},
		"the shape file that is written is accepted":    {spec: target("configMap: a, file: a.json, shape: file")},
		"shape envEntries without file is accepted":     {spec: target("configMap: a, shape: envEntries")},
		"shape entries without file is accepted":        {spec: target("secret: a, shape: entries")},
		"another shape is refused":                      {target("configMap: a, shape: volume"), `supported values: "file", "envEntries", "entries"`},
		"no shape and no file is refused":               {target("configMap: a"), saysFileNeeded},
		"shape file and no file is refused":             {target("configMap: a, shape: file"), saysFileNeeded},
		"shape entries with a file is refused":          {target("configMap: a, shape: entries, file: a.json"), saysFileOnly},
		"shape envEntries with a file is refused":       {target("configMap: a, shape: envEntries, file: a.json"), saysFileOnly},
		"a target that is no object at all is refused":  {"{class: c, key: k, target: a}", "spec.target"},
	})
}

func TestRender_File(t *testing.T) {
	file := func(name string) string { return target("configMap: a, file: '" + name + "'") }
	checkVerdicts(t, "DynamicConfigRender", map[string]verdict{
		".json is accepted":                       {spec: file("a.json")},
		".yaml is accepted":                       {spec: file("a.yaml")},
		".yml is accepted":                        {spec: file("a.yml")},
		".toml is accepted":                       {spec: file("a.toml")},
		".ini is accepted":                        {spec: file("a.ini")},
		".properties is accepted":                 {spec: file("a.properties")},
		"a name with every character is accepted": {spec: file("My-app_v1.prod.json")},
		"a hidden file is accepted":               {spec: file(".app.json")},
		"a name that ends in a dash is accepted":  {spec: file("a-.json")},
		".conf is refused":                        {file("a.conf"), saysFileName},
		".env is refused":                         {file("a.env"), saysFileName},
		".JSON in capitals is refused":            {file("a.JSON"), saysFileName},
		".Yaml in mixed case is refused":          {file("a.Yaml"), saysFileName},
		"an extension that goes on is refused":    {file("a.json5"), saysFileName},
		"no extension is refused":                 {file("app"), saysFileName},
		"a bare extension is refused":             {file(".json"), saysFileName},
		"dots and an extension are refused":       {file("a..json"), saysFileName},
		"two dots in front are refused":           {file("..a.json"), saysTwoDots},
		"a slash is refused":                      {file("a/b.json"), saysFileName},
		"a space is refused":                      {file("a b.json"), saysFileName},
		"a letter outside ASCII is refused":       {file("ä.json"), saysFileName},
		"an empty name is refused":                {file(""), saysFileName},
		"253 characters are accepted":             {spec: file(strings.Repeat("a", 248) + ".json")},
		"254 characters are refused":              {file(strings.Repeat("a", 249) + ".json"), "253"},
	})
	multiLine := "class: c\nkey: k\ntarget:\n  configMap: a\n  file: "
	checkVerdicts(t, "DynamicConfigRender", map[string]verdict{
		"a line break at the end is refused": {multiLine + `"a.json\n"`, saysFileName},
		"a line break inside is refused":     {multiLine + `"a\nb.json"`, saysFileName},
	})
}

func TestRender_Document(t *testing.T) {
	key := func(text string) string { return "{class: c, key: '" + text + "', target: {secret: a, file: a.json}}" }
	class := func(text string) string { return "{class: '" + text + "', key: k, target: {secret: a, file: a.json}}" }
	checkVerdicts(t, "DynamicConfigRender", map[string]verdict{
		"all fields are accepted": {spec: with(
			"classKind: ClusterDynamicConfigClass, format: json, section: a.b, intervalSeconds: 30, suspend: true")},
		"an empty class is refused":            {class(""), "spec.class"},
		"an absent class is refused":           {"{key: k, target: {secret: a, file: a.json}}", "spec.class: Required value"},
		"a class of 254 characters is refused": {class(strings.Repeat("a", 254)), "253"},
		"an empty key is refused":              {key(""), "spec.key"},
		"an absent key is refused":             {"{class: c, target: {secret: a, file: a.json}}", "spec.key: Required value"},
		"a key of 1024 characters is accepted": {spec: key(strings.Repeat("a", 1024))},
		"a key of 1025 characters is refused":  {key(strings.Repeat("a", 1025)), "1024"},
		"both kinds of class are accepted":     {spec: with("classKind: DynamicConfigClass")},
		"another kind of class is refused":     {with("classKind: Secret"), `supported values: "DynamicConfigClass", "ClusterDynamicConfigClass"`},
		"an interval of one second is accepted": {
			spec: with("intervalSeconds: 1"),
		},
		"an interval of zero is refused":           {with("intervalSeconds: 0"), "spec.intervalSeconds: Invalid value: 0"},
		"a negative interval is refused":           {with("intervalSeconds: -1"), "greater than or equal to 1"},
		"an interval over 32 bits is refused":      {with("intervalSeconds: 4294967296"), "spec.intervalSeconds"},
		"a fraction of a second is refused":        {with("intervalSeconds: 1.5"), "spec.intervalSeconds"},
		"format yaml is accepted":                  {spec: with("format: yaml")},
		"format toml is accepted":                  {spec: with("format: toml")},
		"format ini is accepted":                   {spec: with("format: ini")},
		"format properties is accepted":            {spec: with("format: properties")},
		"format yml is refused":                    {with("format: yml"), `supported values: "json", "yaml", "toml", "ini", "properties"`},
		"a section of 1025 characters is refused":  {with("section: " + strings.Repeat("a", 1025)), "1024"},
		"a section of 1024 characters is accepted": {spec: with("section: " + strings.Repeat("a", 1024))},
	})
}
