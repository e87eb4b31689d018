//go:build !linux

package testenv

import "syscall"

// dieWithParent is nothing where the kernel has no such thing: there a server
// is stopped by Stop alone.
func dieWithParent() *syscall.SysProcAttr { return nil }

// threadsStopped cannot be asked here: the signal is taken to have worked.
func threadsStopped(int) (bool, error) { return true, nil }
