package apply

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"dynamic-config.rs/fleet/api/v1alpha1"
)

// check refuses what the API server would refuse for its content, before it is asked:
// the server's answer tells less, and its text must not be shown.
func check(d Desired) error {
	if size := d.size(); size > corev1.MaxSecretSize {
		return refusal(d.Render, v1alpha1.ReasonDocumentTooLarge, nil,
			"was not written: its values have %d bytes, and it can hold %d", size, corev1.MaxSecretSize)
	}
	if !d.Render.Spec.Target.IsSecret() {
		return nil
	}
	return checkType(d, corev1.SecretType(secretType(d.Render)))
}

// checkType refuses a Secret that its type does not allow.
func checkType(d Desired, of corev1.SecretType) error {
	invalid := func(format string, args ...any) error {
		args = append([]any{of}, args...)
		return refusal(d.Render, v1alpha1.ReasonTargetInvalid, nil, "cannot be of type %s: "+format, args...)
	}
	switch of {
	case corev1.SecretTypeServiceAccountToken:
		return invalid("the cluster makes those itself")
	case corev1.SecretTypeDockerConfigJson:
		return checkJSON(d, corev1.DockerConfigJsonKey, invalid)
	case corev1.SecretTypeDockercfg:
		return checkJSON(d, corev1.DockerConfigKey, invalid)
	case corev1.SecretTypeBasicAuth:
		if !has(d, corev1.BasicAuthUsernameKey) && !has(d, corev1.BasicAuthPasswordKey) {
			return invalid("the document has neither %s nor %s", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(d.Data[corev1.SSHAuthPrivateKey]) == 0 {
			return invalid("the document has no %s", corev1.SSHAuthPrivateKey)
		}
	case corev1.SecretTypeTLS:
		if !has(d, corev1.TLSCertKey) || !has(d, corev1.TLSPrivateKeyKey) {
			return invalid("the document needs %s and %s", corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
		}
	default: // what no server checks
	}
	return nil
}

// checkJSON refuses a Secret without a JSON object under a key. What the parser says
// is not told: it may quote the value.
func checkJSON(d Desired, key string, invalid func(string, ...any) error) error {
	if !has(d, key) {
		return invalid("the document has no %s", key)
	}
	var object map[string]any
	if json.Unmarshal(d.Data[key], &object) != nil {
		return invalid("%s is no JSON object", key)
	}
	return nil
}

// has says whether the content has a key, whatever its value.
func has(d Desired, key string) bool {
	_, ok := d.Data[key]
	return ok
}
