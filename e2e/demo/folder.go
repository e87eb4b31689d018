package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// inFolder does something in a folder of its own, of which only the logs of a failure
// stay.
func inFolder(do func(dir string) error) error {
	dir, err := os.MkdirTemp("", "dynamic-config-demo-")
	if err != nil {
		return err
	}
	return cleanUp(dir, do(dir))
}

// cleanUp removes the demo's folder. After a failure the logs stay, and nothing else:
// beside them are keys and the whole of etcd.
func cleanUp(dir string, failed error) error {
	if failed == nil || errors.Is(failed, errInterrupted) {
		return errors.Join(failed, os.RemoveAll(dir))
	}
	kept, err := keepLogs(dir)
	if kept {
		fmt.Fprintf(os.Stderr, "\nthe logs are kept in %s\n", dir)
	}
	return errors.Join(failed, err)
}

// keepLogs removes what is no log, and every folder that has none, dir too. It says
// whether there is one.
func keepLogs(dir string) (kept bool, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir():
			below, err := keepLogs(path)
			if err != nil {
				return kept, err
			}
			kept = kept || below
		case filepath.Ext(path) == ".log":
			kept = true
		default:
			if err := os.Remove(path); err != nil {
				return kept, err
			}
		}
	}
	if !kept {
		err = os.Remove(dir)
	}
	return kept, err
}
