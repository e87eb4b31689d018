// Package kept holds frames of the protocol as versions of the product sent them, for
// tests: a version must understand those of the version before it, on both sides.
//
// Below testdata is a folder for each version. A frame is two files: its bytes, .binpb,
// and what they say, .txtpb; its folder is the name of its message. The files of a
// version never change once it is released. This package's test writes the folder of a
// new one:
//
//	go test ./proto/dynamicconfig/fleet/v1/kept -update=v0.2
//
// syncserver and syncclient play sessions with the frames of every version.
package kept

import (
	"cmp"
	"embed"
	"io/fs"
	"path"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed testdata
var files embed.FS

const root = "testdata"

// unknownField is the number of a field that no version has.
const unknownField = 1000

// Versions are those with frames, the oldest first.
func Versions(tb testing.TB) []string {
	tb.Helper()
	folders, err := fs.ReadDir(files, root)
	if err != nil {
		tb.Fatal(err)
	}
	versions := make([]string, 0, len(folders))
	for _, folder := range folders {
		versions = append(versions, folder.Name())
	}
	// v0.9 is before v0.10.
	slices.SortFunc(versions, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return versions
}

// Frame is a frame as a version sent it. Its name is that of its file in the folder of
// its message.
func Frame[M proto.Message](tb testing.TB, version, name string) M {
	tb.Helper()
	var none M
	descriptor := none.ProtoReflect().Descriptor()
	frame := none.ProtoReflect().New().Interface()
	bytes, err := files.ReadFile(path.Join(root, version, string(descriptor.Name()), name+".binpb"))
	if err == nil {
		err = proto.Unmarshal(bytes, frame)
	}
	m, ok := frame.(M)
	if err != nil || !ok {
		tb.Fatalf("%s %s %s: %v", version, descriptor.Name(), name, err)
	}
	return m
}

// Newer is a frame as a newer version may send it: it, and each message in it, has a
// field more.
func Newer[M proto.Message](frame M) M {
	newer := proto.CloneOf(frame)
	extend(newer.ProtoReflect())
	return newer
}

func extend(m protoreflect.Message) {
	field := protowire.AppendTag(nil, unknownField, protowire.BytesType)
	m.SetUnknown(protowire.AppendString(field, "of a newer version"))
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for i := range value.List().Len() {
				extend(value.List().Get(i).Message())
			}
		default:
			extend(value.Message())
		}
		return true
	})
}
