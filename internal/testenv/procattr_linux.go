package testenv

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dieWithParent makes the kernel kill the child when its parent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// threadsStopped says whether every thread of a process has stopped: a SIGSTOP is
// sent at once and takes effect thread by thread.
func threadsStopped(pid int) (bool, error) {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if os.IsNotExist(err) {
			continue // the thread ended meanwhile
		}
		if err != nil {
			return false, err
		}
		// pid (name) state ..., where the name may hold anything: proc(5).
		_, state, found := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
		if !found || len(state) == 0 || state[0] != 'T' {
			return false, nil
		}
	}
	return len(stats) > 0, nil
}
