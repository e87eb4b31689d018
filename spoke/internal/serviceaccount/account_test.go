package serviceaccount_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"dynamic-config.rs/fleet/internal/testenv"
	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
	"dynamic-config.rs/fleet/spoke/internal/serviceaccount"
)

const (
	namespace = "dynamic-config-system"
	name      = "dynamic-config-spoke"
	audience  = "dynamic-config:fleet.example:prod:abc"
)

// patience is how long the authorizer may take on a busy machine.
const patience = 90 * time.Second

var cluster *testenv.Cluster

func TestMain(m *testing.M) {
	testenv.Main(m, func(c *testenv.Cluster) { cluster = c }, testenv.WithoutControllers)
}

// newAccount is the agent's account with the rights that the manifests give it.
func newAccount(t *testing.T) *serviceaccount.Account {
	t.Helper()
	if err := cluster.ApplyDir(t.Context(), filepath.Join("..", "..", "..", "deploy", "kustomize", "spoke")); err != nil {
		t.Fatal(err)
	}
	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	account, err := serviceaccount.New(config, namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return account
}

func TestAccount_WhatItPublishesVerifiesWhatItIsGiven(t *testing.T) {
	g, account := gomega.NewWithT(t), newAccount(t)
	var token string
	// The authorizer reads roles from a watch, which lags behind the apply.
	g.Eventually(func() (err error) { token, err = account.Token(t.Context(), audience); return err }, patience).Should(gomega.Succeed())
	var keys *fleetv1.ClusterKeys
	g.Eventually(func() (err error) { keys, err = account.Keys(t.Context()); return err }, patience).Should(gomega.Succeed())
	g.Expect(keys.GetIssuer()).To(gomega.Equal(testenv.DefaultIssuer))
	var set jose.JSONWebKeySet
	g.Expect(json.Unmarshal(keys.GetJwks(), &set)).To(gomega.Succeed())
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	var claims jwt.Claims
	g.Expect(parsed.Claims(set, &claims)).To(gomega.Succeed())
	g.Expect(claims.Issuer).To(gomega.Equal(keys.GetIssuer()))
	g.Expect(slices.Equal(claims.Audience, []string{audience})).To(gomega.BeTrue())
	g.Expect(claims.Subject).To(gomega.Equal("system:serviceaccount:" + namespace + ":" + name))
}

func TestAccount_GetsNoTokenOfAnother(t *testing.T) {
	newAccount(t)
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
	if err := client.IgnoreAlreadyExists(cluster.Client.Create(t.Context(), other)); err != nil {
		t.Fatal(err)
	}
	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	account, err := serviceaccount.New(config, namespace, other.Name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := account.Token(t.Context(), audience); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("got %v", err)
	}
}

// An administrator may close what Kubernetes opens by default. The refusal says what
// is missing.
func TestAccount_KeysThatMayNotBeRead(t *testing.T) {
	account := newAccount(t)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:service-account-issuer-discovery"}}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	defer func() {
		binding.ResourceVersion, binding.UID = "", ""
		if err := cluster.Client.Create(t.Context(), binding); err != nil {
			t.Error(err)
		}
	}()
	gomega.NewWithT(t).Eventually(func() string {
		_, err := account.Keys(t.Context())
		if err == nil {
			return ""
		}
		return err.Error()
	}, patience).Should(gomega.ContainSubstring("bind ClusterRole system:service-account-issuer-discovery"))
}
