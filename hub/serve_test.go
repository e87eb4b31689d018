package hub

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// gRPC reads the message of a call before anybody of ours is asked.
func TestEnrolWithin_ACallWhoseMessageNeverComesEnds(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.InTapHandle(enrolWithin(10 * time.Millisecond)))
	fleetv1.RegisterEnrollmentServiceServer(server, fleetv1.UnimplementedEnrollmentServiceServer{})
	go func() { _ = server.Serve(listener) }() // ended by Stop
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	call, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, fleetv1.EnrollmentService_Enroll_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	if err := call.RecvMsg(&fleetv1.EnrollResponse{}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the call ends with %v", err)
	}
}
