package seawallhttp

import (
	"net/http"
	"strings"
)

// HostKey is the default key of a request: scheme, host and port of its URL in lower case, like
// "https://example.com:443". A port that the URL leaves out is that of the scheme, so http://a and https://a are two
// keys, as are https://a and https://a:8443. The key of a URL without a host is empty.
//
// It is exported to be called from a key function of one's own; see [WithKey].
func HostKey(req *http.Request) string {
	u := req.URL
	if u == nil || u.Host == "" {
		return ""
	}
	host := u.Host
	if u.Port() == "" {
		host = strings.TrimSuffix(host, ":") + defaultPort(u.Scheme)
	}
	return strings.ToLower(u.Scheme + "://" + host)
}

func defaultPort(scheme string) string {
	switch scheme {
	case "http":
		return ":80"
	case "https":
		return ":443"
	default: // That of a protocol registered with http.Transport; its requests have no port either.
		return ""
	}
}
