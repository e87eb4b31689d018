package syncclient

import "sync"

// turn says which session the agent listens to, and whether there is one. Two are held
// while the next one takes over; from then on what the older one says late would undo
// what the newer said.
type turn struct {
	receiver Receiver

	mu     sync.Mutex // guards what follows, and is held while the receiver is told
	held   int        // sessions that the hub welcomed and that are not over
	newest uint64     // the latest that took over
}

// take lets a session take over, unless a newer one did, and calls do if it has the
// turn.
func (t *turn) take(session uint64, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if session < t.newest {
		return
	}
	t.newest = session
	do()
}

// begin takes the news that the hub welcomed a session.
func (t *turn) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held++
	if t.held == 1 {
		connected.Set(1)
		t.receiver.Connected(true)
	}
}

// end takes the news that one is over.
func (t *turn) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held--
	if t.held == 0 {
		connected.Set(0)
		t.receiver.Connected(false)
	}
}
