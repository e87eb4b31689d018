// Command app is a workload of the kind tests. It serves at :8080 what a container
// sees: /file?path= a file, /env?name= a variable of its environment, /dial?address=
// whether a TCP port lets it in. With -require it ends at once when a variable is
// missing, as a database without its password does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	require := flag.String("require", "", "environment variable without which the app does not start")
	flag.Parse()
	if *require != "" && os.Getenv(*require) == "" {
		fmt.Fprintln(os.Stderr, "app: no", *require)
		os.Exit(1)
	}
	http.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		text, err := os.ReadFile(r.FormValue("path")) //nolint:gosec // G304, G703: it is there to show its own files
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(text) //nolint:gosec // G705: no browser reads it
	})
	http.HandleFunc("GET /env", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, os.Getenv(r.FormValue("name"))) //nolint:gosec // G705: no browser reads it
	})
	http.HandleFunc("GET /dial", func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, dial(r.Context(), r.FormValue("address"))) //nolint:gosec // G705: no browser reads it
	})
	server := &http.Server{Addr: ":8080", ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "app:", server.ListenAndServe())
	os.Exit(1)
}

// dial says "open" or "closed", or what else is wrong, such as a name that is not known.
func dial(ctx context.Context, address string) string {
	ip, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return err.Error()
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", ip.String())
	if err != nil {
		return "closed"
	}
	_ = conn.Close()
	return "open"
}
