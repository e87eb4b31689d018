package web

import (
	"net/url"
	"strconv"
)

// Pages are the links between the parts of a long table.
type Pages struct {
	// From and To are the first and the last row shown, of so many; all 0 for none.
	From, To, Total int
	// Previous and Next are links; empty where there is none.
	Previous, Next string
}

// paged cuts the rows of a page, which counts from 1, out of all of them.
func paged[Row any](all []Row, page, size int, path string, query url.Values) ([]Row, Pages) {
	last := max(1, (len(all)+size-1)/size)
	page = min(max(page, 1), last)
	from, to := (page-1)*size, min(page*size, len(all))
	p := Pages{From: min(from+1, to), To: to, Total: len(all)}
	if page > 1 {
		p.Previous = link(path, query, page-1)
	}
	if page < last {
		p.Next = link(path, query, page+1)
	}
	return all[from:to], p
}

// link is a path with a query, without what is empty.
func link(path string, query url.Values, page int) string {
	all := url.Values{}
	for name := range query {
		if value := query.Get(name); value != "" {
			all.Set(name, value)
		}
	}
	if page > 1 {
		all.Set("page", strconv.Itoa(page))
	}
	if len(all) == 0 {
		return path
	}
	return path + "?" + all.Encode()
}
