package testenv

import "syscall"

// dieWithParent makes the kernel kill the child when its parent ends.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
