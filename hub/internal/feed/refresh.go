package feed

// request is a subscriber's wish for a fetch that begins after it.
type request struct {
	id    string
	stage requestStage
}

// requestStage is how far a request has come.
type requestStage int

const (
	requestAsked requestStage = iota
	requestSent               // the fetch is under way
	requestDone
)

// snapshot is what a subscriber may know; called with owner.mu held.
func (d *feed) snapshot(sub Subscriber) Snapshot {
	known := d.look()
	asked, ok := d.requests[sub]
	known.Owed = ok && asked.stage != requestDone
	return known
}

// request wants a fetch, unless the subscriber's last request was the same; called
// with owner.mu held.
func (d *feed) request(sub Subscriber, id string) {
	if last, ok := d.requests[sub]; ok && last.id == id {
		return
	}
	d.requests[sub] = &request{id: id}
	d.want()
}

// sent says that the fetch that was asked for is about to be sent; called with owner.mu
// held.
func (d *feed) sent() {
	for _, asked := range d.requests {
		if asked.stage == requestAsked {
			asked.stage = requestSent
		}
	}
}

// fulfil ends the requests that were sent, and answers whose they are; called with
// owner.mu held.
func (d *feed) fulfil() []Subscriber {
	var subs []Subscriber
	for sub, asked := range d.requests {
		if asked.stage == requestSent {
			asked.stage = requestDone
			subs = append(subs, sub)
		}
	}
	return subs
}
