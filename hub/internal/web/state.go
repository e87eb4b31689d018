package web

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/fleet"
)

// State is what a replica knows of its fleet at a moment. Nothing in it is changed.
type State struct {
	// Now is the moment, and Replica who knows.
	Now     time.Time
	Replica string
	// CertificateLifetime of spokes.
	CertificateLifetime time.Duration
	// Clusters and Classes, by their ID, are the objects of the hub's cluster. What
	// their statuses say, any replica wrote.
	Clusters []v1alpha1.SpokeCluster
	Classes  map[string]Class
	// Sessions are those of this replica, by cluster.
	Sessions map[string]Session

	// sorting makes sorted, once for everybody who looks.
	sorting sync.Once
	sorted  []one
}

// Class is what a page says of a class.
type Class struct {
	Source     v1alpha1.Source
	Conditions []metav1.Condition
}

// Session is one that this replica holds.
type Session struct {
	fleet.Status
	// CertificateEnds is when the certificate ends that it was opened with.
	CertificateEnds time.Time
}

// cluster is the SpokeCluster of a name; nil for none.
func (s *State) cluster(name string) *v1alpha1.SpokeCluster {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return &s.Clusters[i]
		}
	}
	return nil
}
