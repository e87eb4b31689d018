package hub

import (
	"crypto/tls"
	"net"
	"testing"
	"time"
)

// from is a connection from somewhere.
type from struct {
	net.Conn
	address net.TCPAddr
}

func (f from) RemoteAddr() net.Addr { return &f.address }

func TestHandshakes_OfOneSourceAreBoundedAndNobodyElseNotices(t *testing.T) {
	now := time.Now()
	h := newHandshakes()
	h.now = func() time.Time { return now }
	admitted := func(ip string, port int) bool {
		_, err := h.admit(&tls.ClientHelloInfo{Conn: from{address: net.TCPAddr{IP: net.ParseIP(ip), Port: port}}})
		return err == nil
	}
	for n := range handshakeBurst {
		if !admitted("192.0.2.1", 1024+n) {
			t.Fatalf("handshake %d of a fleet that comes back is refused", n)
		}
	}
	if admitted("192.0.2.1", 1) {
		t.Error("a source has no bound")
	}
	if !admitted("192.0.2.2", 1) {
		t.Error("another source pays for it")
	}
	now = now.Add(time.Second)
	for n := range handshakesPerSecond {
		if !admitted("192.0.2.1", n) {
			t.Fatalf("handshake %d of the next second is refused", n)
		}
	}
	if admitted("192.0.2.1", 1) {
		t.Error("a second brings more than its share")
	}
}
