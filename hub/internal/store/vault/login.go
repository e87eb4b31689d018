package vault

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"dynamic-config.rs/fleet/api/v1alpha1"
	"dynamic-config.rs/fleet/hub/internal/store"
)

// method logs in, renews and revokes, one request each.
type method struct {
	to         *requester
	login      *Login // nil when the credential is the token
	credential string
}

func newMethod(to *requester, login *Login, credential string) method {
	return method{to: to, login: login, credential: credential}
}

// replaceable says whether a new login gives a new token.
func (m method) replaceable() bool { return m.login != nil }

// auth is what Vault says of a token that it gives or renews.
type auth struct {
	ClientToken   string `json:"client_token"`
	LeaseDuration int64  `json:"lease_duration"` // in seconds
	Renewable     bool   `json:"renewable"`
}

// logIn answers a new lease. first says that the token was never tried.
func (m method) logIn(ctx context.Context, first bool) (*lease, error) {
	if m.login == nil {
		return m.lookUp(ctx, first)
	}
	fields := map[string]string{"role_id": m.login.RoleID, "secret_id": m.credential}
	if m.login.RoleID == "" {
		fields = map[string]string{"role": m.login.Role, "jwt": m.credential}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	got, err := m.to.put(ctx, "", "auth/"+m.login.Mount+"/login", body)
	if err != nil {
		return nil, err
	}
	return m.granted(got, "the store refuses the login: the credential, the role, or the mount in spec.vault.auth", "")
}

// lookUp asks how long the given token holds. A token may be good and yet not look
// itself up, so a refusal only counts for one that was in use.
func (m method) lookUp(ctx context.Context, first bool) (*lease, error) {
	got, err := m.to.get(ctx, m.credential, "auth/token/lookup-self")
	if err != nil {
		return nil, err
	}
	if got.isForbidden() && first {
		return newLease(m.credential, 0, false, false, time.Now()), nil
	}
	if err := refused(got, "the store does not accept the token, or does not let it look itself up"); err != nil {
		return nil, err
	}
	e, _ := got.open()
	var data struct {
		TTL        *int64  `json:"ttl"`         // in whole seconds
		ExpireTime *string `json:"expire_time"` // null when never
		Renewable  bool    `json:"renewable"`
	}
	if json.Unmarshal(e.Data, &data) != nil || data.TTL == nil {
		return nil, unreachable(errNotVault)
	}
	ttl := time.Duration(*data.TTL) * time.Second
	if ttl == 0 && data.ExpireTime != nil {
		ttl = time.Second // less is left
	}
	return newLease(m.credential, ttl, data.Renewable, false, time.Now()), nil
}

// renew prolongs a lease by as much as it had at first.
func (m method) renew(ctx context.Context, held *lease) (*lease, error) {
	got, err := m.to.put(ctx, held.token, "auth/token/renew-self", []byte("{}"))
	if err != nil {
		return nil, err
	}
	return m.granted(got, "the store does not renew the token", held.token)
}

// revoke ends a token that the client logged in for.
func (m method) revoke(ctx context.Context, held *lease) error {
	if !m.replaceable() {
		return nil
	}
	got, err := m.to.put(ctx, held.token, "auth/token/revoke-self", []byte("{}"))
	if err != nil {
		return err
	}
	if got.status != http.StatusNoContent {
		return refused(got, "the store does not revoke the token")
	}
	return nil
}

// granted reads the lease out of an answer. The token is the held one where there
// is one.
func (m method) granted(got answer, refusal, held string) (*lease, error) {
	if err := refused(got, refusal); err != nil {
		return nil, err
	}
	e, _ := got.open()
	if e.Auth == nil || e.Auth.ClientToken == "" || e.Auth.LeaseDuration < 0 {
		return nil, unreachable(errNotVault)
	}
	token, ttl := e.Auth.ClientToken, time.Duration(e.Auth.LeaseDuration)*time.Second
	if held != "" {
		token = held
		ttl = max(ttl, time.Second) // zero would mean for ever
	}
	return newLease(token, ttl, e.Auth.Renewable, m.replaceable(), time.Now()), nil
}

// refused is the failure of a request that has to do with the credential: Vault does
// not tell a wrong secret from a wrong role or a login that is not there.
func refused(got answer, text string) error {
	e, own := got.open()
	isRefusal := got.status >= http.StatusBadRequest && got.status <= http.StatusNotFound ||
		got.status == http.StatusInternalServerError && e.says("invalid secret id")
	if own && isRefusal {
		return &store.Error{Reason: v1alpha1.ReasonCredentialRejected, Err: errors.New(text)}
	}
	if failure := got.failure(); failure != nil {
		return failure
	}
	return nil
}
