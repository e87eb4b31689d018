package e2e_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"

	fleetv1 "dynamic-config.rs/fleet/proto/dynamicconfig/fleet/v1"
)

// TestAttacks_OnThePort: nobody makes the hub hold more than the bounds of its port,
// not even by a client that keeps to none of them.
func TestAttacks_OnThePort(t *testing.T) {
	const name = "attacked-port"
	register(t, name)
	t.Run("a frame of more than 1 MiB ends the session", func(t *testing.T) {
		stream, err := openSession(t, hubRoot(t).forge(t, nil, name))
		if err != nil {
			t.Fatal(err)
		}
		large := &fleetv1.RenderSpec{Ref: &fleetv1.RenderRef{Namespace: "shop", Name: strings.Repeat("a", 1<<20)}}
		if err := stream.Send(&fleetv1.SessionRequest{Frame: &fleetv1.SessionRequest_Upsert{Upsert: large}}); err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if got := verdictOf(err).code; got != codes.ResourceExhausted {
			t.Errorf("the session ends with %v", err)
		}
	})
	t.Run("headers of more than 16 KiB end the stream", func(t *testing.T) {
		c := newRawClient(t, nil)
		c.call(1, slices.Repeat([]hpack.HeaderField{{Name: "x-large", Value: strings.Repeat("a", 1<<10), Sensitive: true}}, 17)...)
		if got := c.refusal(1); got != http2.ErrCodeFrameSize {
			t.Errorf("the stream ends with %v", got)
		}
	})
	t.Run("a ninth stream of a connection is refused", func(t *testing.T) {
		c := newRawClient(t, hubRoot(t).forge(t, nil, name)) // admitted, so that its streams wait for a first word
		for n := range uint32(9) {
			c.call(2*n + 1)
		}
		if got := c.refusal(17); got != http2.ErrCodeRefusedStream {
			t.Errorf("the stream ends with %v", got)
		}
		if c.maxStreams != 8 {
			t.Errorf("the hub announced %d streams", c.maxStreams)
		}
	})
}

// rawClient speaks HTTP/2 without heed of what the server allows.
type rawClient struct {
	t          *testing.T
	framer     *http2.Framer
	maxStreams uint32 // as announced
}

func newRawClient(t *testing.T, certificate *tls.Certificate) *rawClient {
	t.Helper()
	config := hubTLS(t, certificate)
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", fleet.Hub.Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &rawClient{t: t, framer: http2.NewFramer(conn, conn)}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// call opens a stream of a session, and says nothing on it.
func (c *rawClient) call(stream uint32, more ...hpack.HeaderField) {
	c.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, field := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "https"},
		{Name: ":path", Value: fleetv1.SyncService_Session_FullMethodName},
		{Name: ":authority", Value: "dynamic-config-hub"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		if err := encoder.WriteField(field); err != nil {
			c.t.Fatal(err)
		}
	}
	const frame = 16 << 10
	rest := block.Bytes()
	first := rest[:min(frame, len(rest))]
	rest = rest[len(first):]
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndHeaders: len(rest) == 0}); err != nil {
		c.t.Fatal(err)
	}
	if len(rest) > 0 {
		if err := c.framer.WriteContinuation(stream, true, rest); err != nil {
			c.t.Fatal(err)
		}
	}
}

// refusal reads until a stream is reset, and returns why it was.
func (c *rawClient) refusal(stream uint32) http2.ErrCode {
	c.t.Helper()
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if limit, ok := frame.Value(http2.SettingMaxConcurrentStreams); ok {
				c.maxStreams = limit
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return frame.ErrCode
			}
		}
	}
}
