package render_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	goccy "github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/magiconair/properties"
	yaml11 "sigs.k8s.io/yaml/goyaml.v2"
)

// reader is another implementation of a format: it makes plain data of a text,
// tables as map[string]any, integers as *big.Int.
type reader func(text string) (any, error)

// yamlJudges are a reader of YAML 1.2 and one of YAML 1.1.
var yamlJudges = []reader{yaml12Judge, yaml11Judge}

// sameFloats holds not-a-number for equal to itself and tells -0.0 from 0.0.
var sameFloats = cmp.Options{
	cmp.Comparer(func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
	}),
	cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 }),
}

func tomlJudge(text string) (any, error) {
	var data map[string]any
	if _, err := toml.Decode(text, &data); err != nil {
		return nil, err
	}
	if data == nil {
		data = map[string]any{}
	}
	return plain(data)
}

// mixedArrays finds what tomlJudge cannot read: of an array that has tables and
// other items it keeps the tables, and it flattens arrays of arrays of tables.
func mixedArrays(text string) bool {
	data, _ := jsonJudge(text)
	return mixed(data, false)
}

func mixed(data any, inArray bool) bool {
	switch v := data.(type) {
	case map[string]any:
		for _, value := range v {
			if mixed(value, false) {
				return true
			}
		}
	case []any:
		tables := 0
		for _, item := range v {
			if _, ok := item.(map[string]any); ok {
				tables++
			}
			if mixed(item, true) {
				return true
			}
		}
		return tables > 0 && (inArray || tables < len(v))
	}
	return false
}

// astral finds what propertiesJudge cannot read: it does not join surrogates.
func astral(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > 0xFFFF })
}

func yaml12Judge(text string) (any, error) {
	var data any
	if err := goccy.NewDecoder(bytes.NewBufferString(text)).Decode(&data); err != nil {
		return nil, err
	}
	return plain(data)
}

func yaml11Judge(text string) (any, error) {
	var data any
	if err := yaml11.UnmarshalStrict([]byte(text), &data); err != nil {
		return nil, err
	}
	return plain(data)
}

// plain makes data of several readers comparable.
func plain(data any) (any, error) {
	switch v := data.(type) {
	case int:
		return big.NewInt(int64(v)), nil
	case int64:
		return big.NewInt(v), nil
	case uint64:
		return new(big.Int).SetUint64(v), nil
	case json.Number:
		if n, ok := new(big.Int).SetString(string(v), 10); ok {
			return n, nil
		}
		return strconv.ParseFloat(string(v), 64)
	case nil, bool, float64, string:
		return v, nil
	case map[string]any:
		table := make(map[string]any, len(v))
		for key, value := range v {
			var err error
			if table[key], err = plain(value); err != nil {
				return nil, err
			}
		}
		return table, nil
	case map[any]any:
		table := make(map[string]any, len(v))
		for key, value := range v {
			name, ok := key.(string)
			if !ok {
				return nil, fmt.Errorf("a key is a %T", key)
			}
			var err error
			if table[name], err = plain(value); err != nil {
				return nil, err
			}
		}
		return table, nil
	default:
		return plainList(data)
	}
}

func plainList(data any) (any, error) {
	var list []any
	switch v := data.(type) {
	case []any:
		list = v
	case []map[string]any:
		for _, item := range v {
			list = append(list, item)
		}
	default:
		return nil, fmt.Errorf("unknown type %T", data)
	}
	items := make([]any, len(list))
	for i, item := range list {
		var err error
		if items[i], err = plain(item); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func jsonJudge(text string) (any, error) {
	decoder := json.NewDecoder(bytes.NewBufferString(text))
	decoder.UseNumber()
	var data any
	if err := decoder.Decode(&data); err != nil {
		return nil, err
	}
	return plain(data)
}

// propertiesJudge reads what java.util.Properties would.
func propertiesJudge(text string) (any, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	loaded, err := loader.LoadBytes([]byte(text))
	if err != nil {
		return nil, err
	}
	return loaded.Map(), nil
}

// iniJudge reads values verbatim and strips one pair of quotes.
func iniJudge(text string) (any, error) {
	leaves, prefix := map[string]string{}, ""
	for line := range strings.SplitSeq(text, "\n") {
		if section, ok := strings.CutPrefix(line, "["); ok {
			prefix = strings.TrimSuffix(section, "]") + "."
			continue
		}
		key, value, ok := strings.Cut(line, " = ")
		if !ok && line != "" {
			return nil, fmt.Errorf("no separator in %q", line)
		}
		if len(value) > 1 && strings.HasPrefix(value, `"`) && strings.HasSuffix(value, `"`) {
			value = value[1 : len(value)-1]
		}
		if ok {
			leaves[prefix+key] = value
		}
	}
	return leaves, nil
}
