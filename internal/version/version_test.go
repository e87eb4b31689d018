package version_test

import (
	"runtime"
	"strings"
	"testing"

	"dynamic-config.rs/fleet/internal/version"
)

func TestString_HoldsEverythingThatABugReportNeeds(t *testing.T) {
	said := version.String()
	for _, part := range []string{version.Version, version.Commit, version.Date, runtime.Version(), runtime.GOARCH} {
		if !strings.Contains(said, part) {
			t.Errorf("%q lacks %q", said, part)
		}
	}
}
