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

// each plays a test with every kept frame: its file without ending, its message's type.
func each(t *testing.T, test func(t *testing.T, version, file string, kind protoreflect.MessageType)) {
	t.Helper()
	for _, version := range kept.Versions(t) {
		files, err := filepath.Glob(filepath.Join("testdata", version, "*", "*.binpb"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no frames: %v", version, err)
		}
		for _, file := range files {
			name := protoreflect.FullName("dynamicconfig.fleet.v1." + filepath.Base(filepath.Dir(file)))
			kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".binpb"), func(t *testing.T) {
				test(t, version, strings.TrimSuffix(file, ".binpb"), kind)
			})
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Today's code reads what every version sent, loses nothing of it, and would send the
// same bytes.
func TestFrames_MeanWhatTheyMeant(t *testing.T) {
	each(t, func(t *testing.T, _, file string, kind protoreflect.MessageType) {
		binary, frame, want := read(t, file+".binpb"), kind.New().Interface(), kind.New().Interface()
		if err := proto.Unmarshal(binary, frame); err != nil {
			t.Fatal(err)
		}
		if err := prototext.Unmarshal(read(t, file+".txtpb"), want); err != nil {
			t.Fatalf("the text says what today's code does not know: %v", err)
		}
		if !proto.Equal(want, frame) { // which compares unknown fields too, and the text has none
			t.Errorf("the bytes say\n%s\nand the text\n%s", prototext.Format(frame), prototext.Format(want))
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(frame)
		if err != nil || !bytes.Equal(again, binary) {
			t.Errorf("it is encoded as other bytes now: %v", err)
		}
	})
}

// A peer that knows less keeps what it knows: nothing of a newer version's frame is an
// error.
func TestFrames_OfANewerVersionAreRead(t *testing.T) {
	each(t, func(t *testing.T, _, file string, kind protoreflect.MessageType) {
		frame := kind.New().Interface()
		if err := proto.Unmarshal(read(t, file+".binpb"), frame); err != nil {
			t.Fatal(err)
		}
		sent, err := proto.Marshal(kept.Newer(frame))
		if err != nil {
			t.Fatal(err)
		}
		got := kind.New().Interface()
		err = proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(sent, got)
		if err != nil || len(sent) <= proto.Size(frame) || !proto.Equal(frame, got) {
			t.Errorf("got\n%s\n%v", prototext.Format(got), err)
		}
	})
}

// The latest version has a frame of every kind, with every field: what is added to the
// protocol is kept from its first version on.
func TestFrames_HoldEveryFieldOfTheProtocol(t *testing.T) {
	versions, seen := kept.Versions(t), map[protoreflect.FullName]bool{}
	each(t, func(t *testing.T, version, file string, kind protoreflect.MessageType) {
		frame := kind.New().Interface()
		if err := proto.Unmarshal(read(t, file+".binpb"), frame); err != nil {
			t.Fatal(err)
		}
		if version == versions[len(versions)-1] {
			fieldsOf(frame.ProtoReflect(), seen)
		}
	})
	for _, file := range []protoreflect.FileDescriptor{fleetv1.File_dynamicconfig_fleet_v1_enrollment_proto, fleetv1.File_dynamicconfig_fleet_v1_sync_proto} {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for j := range fields.Len() {
				if name := fields.Get(j).FullName(); !seen[name] {
					t.Errorf("no frame of %s has %s: add it to newFrames, and write them for the coming version", versions[len(versions)-1], name)
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
