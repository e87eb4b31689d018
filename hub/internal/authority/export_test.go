package authority

import "time"

// IssueBelow makes an authority below another one, in PEM.
func IssueBelow(a *Authority, now time.Time) (certPEM, keyPEM []byte, err error) {
	below, err := newRoot(now)
	if err != nil {
		return nil, nil, err
	}
	cert, err := certify(below.cert, a.signing.cert, below.cert.PublicKey, a.signing.key)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(below.key)
	return encodeCertificates(cert), keyPEM, err
}
