package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// front stands before Consul and counts what is asked of it.
type front struct {
	*httptest.Server
	requests atomic.Int64
}

func newFront(consul string) (*front, error) {
	upstream, err := url.Parse(consul)
	if err != nil {
		return nil, err
	}
	proxy, f := httputil.NewSingleHostReverseProxy(upstream), &front{}
	proxy.ErrorLog = log.New(io.Discard, "", 0) // queries of a hub that was killed are cut
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	return f, nil
}
