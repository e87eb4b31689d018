// Package version says which build of the product this is. The linker sets the
// variables; a build without them, such as go run, says dev.
package version

import (
	"fmt"
	"runtime"
)

// Set at build time with -ldflags "-X ...".
var (
	// Version is the release, v1.2.3, or what git describe says between releases.
	Version = "dev"
	// Commit is the commit it was built from.
	Commit = "unknown"
	// Date is the time of that commit, in RFC 3339, so that a build can be
	// repeated.
	Date = "unknown"
)

// String is one line for people: version, commit, date, Go version, platform.
func String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s %s/%s)",
		Version, Commit, Date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
