package kept_test

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// noon is when everything in the frames happens.
var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// frame is one to be kept, and what it is called.
type frame struct {
	name string
	proto.Message
}

// newFrames are those that -update writes: one of each kind, with every field set in at
// least one of them. They tell a session: the agent wants two Renders, gets the content
// of one and a word on the other, changes one and removes it.
func newFrames() []frame {
	return append(append(fromAgent(), fromHub()...), enrolment()...)
}

func webRef() *fleetv1.RenderRef {
	return &fleetv1.RenderRef{Namespace: "shop", Name: "web", Uid: "0c9d4b2e-6f1a-4c53-9a55-000000000001"}
}

func dbRef() *fleetv1.RenderRef {
	return &fleetv1.RenderRef{Namespace: "shop", Name: "db", Uid: "0c9d4b2e-6f1a-4c53-9a55-000000000002"}
}

func web(generation int64) *fleetv1.RenderSpec {
	return &fleetv1.RenderSpec{
		Ref: webRef(), Generation: generation, Class: "team", ClassKind: fleetv1.ClassKind_CLASS_KIND_NAMESPACED,
		Key: "shop/web.json", Interval: durationpb.New(15 * time.Second),
		Target: &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_CONFIG_MAP, Name: "web", Shape: fleetv1.Shape_SHAPE_FILE, File: "config.json"},
	}
}

func db() *fleetv1.RenderSpec {
	return &fleetv1.RenderSpec{
		Ref: dbRef(), Generation: 7, Class: "platform-vault", ClassKind: fleetv1.ClassKind_CLASS_KIND_CLUSTER,
		Key: "secret/postgres", Format: "json", Section: "db", Interval: durationpb.New(30 * time.Second), Suspend: true,
		Target:          &fleetv1.Target{Kind: fleetv1.TargetKind_TARGET_KIND_SECRET, Name: "pg", Shape: fleetv1.Shape_SHAPE_ENTRIES},
		SyncRequestedAt: "2026-03-01T12:00:00Z", HaveContentId: []byte("content-of-db"),
	}
}

func keys() *fleetv1.ClusterKeys {
	return &fleetv1.ClusterKeys{
		Issuer: "https://kubernetes.default.svc.cluster.local",
		Jwks: []byte(`{"keys":[{"use":"sig","kty":"EC","kid":"one","crv":"P-256","alg":"ES256",` +
			`"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}`),
	}
}

func agent() *fleetv1.Agent { return &fleetv1.Agent{Version: "v0.1.0", Instance: "pod-1"} }

func fromAgent() []frame {
	return []frame{
		{"hello", &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Hello{Hello: &fleetv1.Hello{Agent: agent(), ProtocolVersion: 1}}}},
		{"inventory-first", page(&fleetv1.InventoryPage{InventoryId: 1, Renders: []*fleetv1.RenderSpec{db()}})},
		{"inventory-last", page(&fleetv1.InventoryPage{InventoryId: 1, Renders: []*fleetv1.RenderSpec{web(1)}, Last: true})},
		{"upsert", &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: web(2)}}},
		{"remove", &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Remove{Remove: webRef()}}},
		{"result-applied", result(&fleetv1.DeliveryResult{
			Nonce: 1, Ref: webRef(), Generation: 1, Code: fleetv1.DeliveryResult_CODE_APPLIED, ContentId: []byte("content-of-web"),
		})},
		{"result-rejected", result(&fleetv1.DeliveryResult{
			Nonce: 2, Ref: webRef(), Generation: 2, Code: fleetv1.DeliveryResult_CODE_REJECTED,
			Reason: "TargetNotOwned", Message: "ConfigMap web is nobody's",
		})},
		{"heartbeat", &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: 1}}}},
		{"keys", &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Keys{Keys: keys()}}},
	}
}

func page(p *fleetv1.InventoryPage) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Inventory{Inventory: p}}
}

func result(r *fleetv1.DeliveryResult) *fleetv1.SessionRequest {
	return &fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Result{Result: r}}
}

func fromHub() []frame {
	return []frame{
		{"welcome", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Welcome{Welcome: &fleetv1.Welcome{
			ProtocolVersion: 1, Hub: "hub-0", Epoch: 12, ServerTime: timestamppb.New(noon), HeartbeatInterval: durationpb.New(10 * time.Second),
			SessionNotAfter: timestamppb.New(noon.Add(30 * time.Minute)), TrustBundleDer: [][]byte{[]byte("a root in DER")},
		}}}},
		{"deliver", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Deliver{Deliver: &fleetv1.Deliver{
			Nonce: 1, Ref: webRef(), Generation: 1, ContentId: []byte("content-of-web"), SourceVersion: "42",
			Data:        map[string][]byte{"config.json": []byte(`{"colour":"red"}`)},
			HandledSync: "2026-03-01T12:00:00Z", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		}}}},
		{"current", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Current{Current: &fleetv1.Current{
			Ref: dbRef(), Generation: 7, ContentId: []byte("content-of-db"), SourceVersion: "3", HandledSync: "2026-03-01T12:00:00Z",
		}}}},
		{"refusal", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Refusal{Refusal: &fleetv1.Refusal{
			Ref: dbRef(), Generation: 7, ReadyReason: "RenderFailed", CauseCondition: "Fetched", CauseReason: "DocumentNotFound",
			Message: "fetch secret/postgres: absent", HandledSync: "2026-03-01T12:00:00Z",
		}}}},
		{"drain", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Drain{Drain: &fleetv1.Drain{
			Reason: fleetv1.Drain_REASON_REBALANCE, Window: durationpb.New(10 * time.Millisecond),
		}}}},
		{"heartbeat", &fleetv1.SessionResponse{Frame: &fleetv1.SessionResponse_Heartbeat{Heartbeat: &fleetv1.Heartbeat{Seq: 1}}}},
	}
}

func enrolment() []frame {
	return []frame{
		{"token", &fleetv1.EnrollRequest{
			Cluster: "prod", CsrDer: []byte("a request in DER"), Agent: agent(),
			Evidence: &fleetv1.EnrollRequest_ServiceAccountToken{ServiceAccountToken: "a token of a ServiceAccount"},
		}},
		{"join", &fleetv1.EnrollRequest{
			Cluster: "prod", CsrDer: []byte("a request in DER"), Agent: agent(),
			Evidence: &fleetv1.EnrollRequest_JoinToken{JoinToken: &fleetv1.JoinToken{
				Token: "a join token", ServiceAccountToken: "a token of a ServiceAccount", Keys: keys(),
			}},
		}},
		{"certificate", &fleetv1.EnrollResponse{
			ChainDer: [][]byte{[]byte("a leaf in DER"), []byte("a root in DER")}, TrustBundleDer: [][]byte{[]byte("a root in DER")},
			RenewAfter: timestamppb.New(noon.Add(12 * time.Hour)), ServerTime: timestamppb.New(noon),
		}},
	}
}
