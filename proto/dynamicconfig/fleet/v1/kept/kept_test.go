package kept_test

import (
	"bytes"
	"flag"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1/kept"
)

var update = flag.String("update", "", "the version, v0.<minor>, to write the frames of; its folder must not exist")

func TestMain(m *testing.M) {
	flag.Parse()
	if *update != "" {
		if err := write(filepath.Join("testdata", *update)); err != nil {
			log.Fatal(err)
		}
		log.Printf("the frames of %s are written; test without -update what is embedded now", *update)
		return
	}
	m.Run()
}

// write keeps newFrames in a folder that must not exist.
func write(folder string) error {
	if err := os.Mkdir(folder, 0o750); err != nil {
		return err
	}
	for _, frame := range newFrames() {
		file := filepath.Join(folder, string(frame.ProtoReflect().Descriptor().Name()), frame.name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		binary, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame.Message)
		if err != nil {
			return err
		}
		text, err := prototext.MarshalOptions{Multiline: true}.Marshal(frame.Message)
		if err != nil {
			return err
		}
		// The module's spaces after a colon are random on purpose.
		text = append(bytes.ReplaceAll(text, []byte(":  "), []byte(": ")), '\n')
		for ending, content := range map[string][]byte{".binpb": binary, ".txtpb": text} {
			if err := os.WriteFile(file+ending, content, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// file is a kept frame.
type file struct {
	// name is its path below testdata, without an ending.
	name, version string
	kind          protoreflect.MessageType
}

// files are all kept frames.
func files(t *testing.T) (all []file) {
	t.Helper()
	for _, version := range kept.Versions(t) {
		paths, err := filepath.Glob(filepath.Join("testdata", version, "*", "*.binpb"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has no frames: %v", version, err)
		}
		for _, path := range paths {
			name := protoreflect.FullName("dynamicconfig.fleet.v1." + filepath.Base(filepath.Dir(path)))
			kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, file{strings.TrimSuffix(strings.TrimPrefix(path, "testdata/"), ".binpb"), version, kind})
		}
	}
	return all
}

// read returns what was kept of it.
func (f file) read(t *testing.T, ending string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", f.name+ending))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// frame is what its bytes say.
func (f file) frame(t *testing.T) proto.Message {
	t.Helper()
	frame := f.kind.New().Interface()
	if err := proto.Unmarshal(f.read(t, ".binpb"), frame); err != nil {
		t.Fatal(err)
	}
	return frame
}

// Today's code reads what every version sent, loses nothing of it, and would send the
// same bytes.
func TestFrames_MeanWhatTheyMeant(t *testing.T) {
	for _, f := range files(t) {
		t.Run(f.name, func(t *testing.T) {
			frame, want := f.frame(t), f.kind.New().Interface()
			if err := prototext.Unmarshal(f.read(t, ".txtpb"), want); err != nil {
				t.Fatalf("the text says what today's code does not know: %v", err)
			}
			if !proto.Equal(want, frame) { // which compares unknown fields too, and the text has none
				t.Errorf("the bytes say\n%s\nand the text\n%s", prototext.Format(frame), prototext.Format(want))
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame)
			if err != nil || !bytes.Equal(again, f.read(t, ".binpb")) {
				t.Errorf("it is encoded as other bytes now: %v", err)
			}
		})
	}
}

// A peer that knows less keeps what it knows: nothing of a newer version's frame is an
// error.
func TestFrames_OfANewerVersionAreRead(t *testing.T) {
	for _, f := range files(t) {
		t.Run(f.name, func(t *testing.T) {
			frame, got := f.frame(t), f.kind.New().Interface()
			sent, err := proto.Marshal(kept.Newer(frame))
			if err != nil {
				t.Fatal(err)
			}
			err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(sent, got)
			if err != nil || len(sent) <= proto.Size(frame) || !proto.Equal(frame, got) {
				t.Errorf("got\n%s\n%v", prototext.Format(got), err)
			}
		})
	}
}

// The latest version has a frame of every kind, with every field: what is added to the
// protocol is kept from its first version on.
func TestFrames_HoldEveryFieldOfTheProtocol(t *testing.T) {
	versions, seen := kept.Versions(t), map[protoreflect.FullName]bool{}
	latest := versions[len(versions)-1]
	for _, f := range files(t) {
		if f.version == latest {
			fieldsOf(f.frame(t).ProtoReflect(), seen)
		}
	}
	for _, file := range []protoreflect.FileDescriptor{fleetv1.File_dynamicconfig_fleet_v1_enrollment_proto, fleetv1.File_dynamicconfig_fleet_v1_sync_proto} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if name := fields.Get(j).FullName(); !seen[name] {
					t.Errorf("no frame of %s has %s: add it to newFrames, and write them for the coming version", latest, name)
				}
			}
		}
	}
}

// fieldsOf notes the fields that a message and those in it have.
func fieldsOf(m protoreflect.Message, seen map[protoreflect.FullName]bool) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		seen[field.FullName()] = true
		switch {
		case field.Message() == nil || field.IsMap():
		case field.IsList():
			for i := range value.List().Len() {
				fieldsOf(value.List().Get(i).Message(), seen)
			}
		default:
			fieldsOf(value.Message(), seen)
		}
		return true
	})
}
