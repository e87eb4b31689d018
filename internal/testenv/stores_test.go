package testenv_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"dynamic-config.rs/fleet/internal/testenv"
)

func TestConsul_OpenToEverybody(t *testing.T) {
	g := gomega.NewWithT(t)
	consul := testenv.Consul(t)
	g.Expect(consul.Put(t.Context(), "a/b", "1")).To(gomega.Succeed())
	status, body := ask(t, consul.Addr+"/v1/kv/a/b?raw", nil)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	g.Expect(body).To(gomega.Equal("1"))
}

func TestConsul_AReadTokenReadsItsPrefixOnly(t *testing.T) {
	g := gomega.NewWithT(t)
	consul := testenv.Consul(t, testenv.WithACL)
	for _, key := range []string{"mine/k", "theirs/k"} {
		g.Expect(consul.Put(t.Context(), key, "1")).To(gomega.Succeed())
	}
	token, err := consul.ReadToken(t.Context(), "mine/")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = consul.ReadToken(t.Context(), "mine/")
	g.Expect(err).NotTo(gomega.HaveOccurred(), "a second token for the same prefix")

	header := http.Header{"X-Consul-Token": {token}}
	status, _ := ask(t, consul.Addr+"/v1/kv/mine/k?raw", header)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	status, _ = ask(t, consul.Addr+"/v1/kv/theirs/k?raw", header)
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
	status, _ = ask(t, consul.Addr+"/v1/kv/mine/k?raw", nil)
	g.Expect(status).To(gomega.Equal(http.StatusForbidden))
}

func TestConsul_WithTLSTakesNobodyWithoutACertificate(t *testing.T) {
	g := gomega.NewWithT(t)
	ca, err := testenv.NewAuthority()
	g.Expect(err).NotTo(gomega.HaveOccurred())
	consul := testenv.Consul(t, testenv.WithACL, testenv.WithTLS(ca))
	g.Expect(consul.Put(t.Context(), "a/b", "1")).To(gomega.Succeed(), "its own client has one")

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, consul.Addr+"/v1/kv/a/b?raw", nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	answer, err := client.Do(request)
	if err == nil {
		_ = answer.Body.Close()
	}
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("remote error: tls")))
}

func TestVault_IsUnsealedWithBothVersionsOfKV(t *testing.T) {
	g := gomega.NewWithT(t)
	vault := testenv.Vault(t)
	header := http.Header{"X-Vault-Token": {vault.Token}}
	status, body := ask(t, vault.Addr+"/v1/sys/internal/ui/mounts/secret/a", header)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	g.Expect(body).To(gomega.ContainSubstring(`"version":"2"`))
	status, body = ask(t, vault.Addr+"/v1/sys/internal/ui/mounts/kv1/a", header)
	g.Expect(status).To(gomega.Equal(http.StatusOK))
	g.Expect(body).To(gomega.ContainSubstring(`"version":"1"`))
}

func TestVault_SealsAndUnseals(t *testing.T) {
	g := gomega.NewWithT(t)
	vault := testenv.Vault(t)
	document := map[string]any{"data": map[string]string{"colour": "red"}}
	g.Expect(vault.Call(t.Context(), http.MethodPost, "secret/data/a", document, nil)).To(gomega.Succeed())
	g.Expect(vault.Seal(t.Context())).To(gomega.Succeed())
	err := vault.Call(t.Context(), http.MethodGet, "secret/data/a", nil, nil)
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("503")))
	g.Expect(vault.Unseal(t.Context())).To(gomega.Succeed())
	// Unsealed, it is a standby for a moment, and then mounts its engines.
	var answer struct{ Data struct{ Colour string } }
	g.Eventually(func() error {
		return vault.Call(t.Context(), http.MethodGet, "secret/data/a", nil, &answer)
	}).WithTimeout(eventually).Should(gomega.Succeed())
	g.Expect(answer.Data.Colour).To(gomega.Equal("red"))
}

func TestPause_KeepsAServerFromAnswering(t *testing.T) {
	g := gomega.NewWithT(t)
	vault := testenv.Vault(t)
	g.Expect(vault.Pause()).To(gomega.Succeed())
	g.Expect(running(vault.PID())).To(gomega.BeTrue())
	answered := make(chan int, 1)
	go func() {
		response, err := http.Get(vault.Addr + "/v1/sys/health")
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	g.Consistently(answered, "200ms").ShouldNot(gomega.Receive())
	g.Expect(vault.Resume()).To(gomega.Succeed())
	g.Eventually(answered, "10s").Should(gomega.Receive(gomega.Equal(http.StatusOK)))
}

// ask sends a GET.
func ask(t *testing.T, url string, header http.Header) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
