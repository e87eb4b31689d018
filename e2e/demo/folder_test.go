package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// After a failure there are logs and the folders that have some, or nothing at all.
func TestCleanUp_KeepsTheLogsOfAFailureAlone(t *testing.T) {
	failed := errors.New("it failed")
	all := []string{"hub/etcd.log", "hub/etcd/member/snap/db", "hub/pki/ca.key", "hub-ca.crt"}
	for name, test := range map[string]struct {
		files  []string
		failed error
		want   []string
	}{
		"a failure with logs":    {all, failed, []string{".", "hub", "hub/etcd.log"}},
		"a failure without logs": {all[1:], failed, nil},
		"a failure at once":      {nil, failed, nil},
		"an interrupt":           {all, errInterrupted, nil},
		"success":                {all, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "demo")
			for _, file := range append(test.files, "empty/x") {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := cleanUp(dir, test.failed); !errors.Is(err, test.failed) {
				t.Errorf("error %v, want %v", err, test.failed)
			}
			if got := tree(t, dir); !slices.Equal(got, test.want) {
				t.Errorf("left: %q, want %q", got, test.want)
			}
		})
	}
}

// tree is what a folder holds, itself too; nothing where there is none.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		found = append(found, name)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func TestFarewell_SaysWhatStaysOnTheHub(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "spokeclusters"}, "north")
	for name, test := range map[string]struct {
		answer error
		want   string
	}{
		"its SpokeCluster is there": {nil, "Stopping north. Its SpokeCluster stays on the hub; to remove it: dynconf cluster revoke north --delete --hub-context hub"},
		"it was deleted":            {notFound, "Stopping north. The hub has no SpokeCluster of it any more."},
		"the hub is gone":           {errors.New("connection refused"), "Stopping north. The demo that it stood beside is gone, its hub with it."},
	} {
		if got := farewell("north", test.answer); got != test.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
