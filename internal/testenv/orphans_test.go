package testenv_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

func TestStart_NoServerOutlivesItsStarter(t *testing.T) {
	for name, behaviour := range map[string]string{
		"a test binary that panics in a goroutine leaves no server": "panic",
		"a test binary that is killed leaves no server":             "wait",
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), helperVariable+"="+behaviour, "TESTENV_DIR="+t.TempDir())
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe()
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(cmd.Start()).To(gomega.Succeed())

			var pids map[string]int
			err = json.NewDecoder(out).Decode(&pids)
			if behaviour == "wait" || err != nil {
				g.Expect(cmd.Process.Kill()).To(gomega.Succeed())
			}
			g.Expect(cmd.Wait()).NotTo(gomega.Succeed())
			g.Expect(err).NotTo(gomega.HaveOccurred(), "%s", &said)
			g.Expect(pids).To(gomega.HaveLen(3))
			if behaviour == "panic" {
				g.Expect(said.String()).To(gomega.ContainSubstring("panic: as a test would"))
			}
			for server, pid := range pids {
				g.Eventually(func() bool { return running(pid) }).WithTimeout(10*time.Second).
					Should(gomega.BeFalse(), "%s still runs", server)
			}
		})
	}
}

// running says whether a process runs; one that ended and that nobody has
// collected does not.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}
