package v1alpha1_test

import "strings"

const saysOneMethod = "exactly one of token, appRole, kubernetes and jwt is needed"

// vaultCases are the cases of spec.vault, which hold for both kinds of class.
func vaultCases() map[string]verdict {
	vault := func(text string) string {
		return "{source: vault, endpoint: 'https://vault:8200', vault: {" + text + "}}"
	}
	auth := func(text string) string { return vault("auth: {" + text + "}") }
	a254 := strings.Repeat("a", 254)
	return map[string]verdict{
		"KV version 1 is accepted":                         {spec: vault("kvVersion: 1")},
		"KV version 2 is accepted":                         {spec: vault("kvVersion: 2")},
		"KV version 3 is refused":                          {vault("kvVersion: 3"), "spec.vault.kvVersion: Unsupported value: 3"},
		"KV version 0 is refused":                          {vault("kvVersion: 0"), "spec.vault.kvVersion: Unsupported value: 0"},
		"login with a token is accepted":                   {spec: auth("token: {}")},
		"login with an AppRole is accepted":                {spec: auth("appRole: {roleID: hub}")},
		"login with a ServiceAccount's token is accepted":  {spec: auth("kubernetes: {role: hub}")},
		"login with a JSON Web Token is accepted":          {spec: auth("jwt: {role: hub}")},
		"login without a method is refused":                {auth(""), saysOneMethod},
		"login with two methods is refused":                {auth("token: {}, jwt: {role: hub}"), saysOneMethod},
		"login with four methods is refused":               {auth("token: {}, appRole: {roleID: a}, kubernetes: {role: a}, jwt: {role: a}"), saysOneMethod},
		"login with an unknown method is refused":          {auth("ldap: {}"), `unknown field "spec.vault.auth.ldap"`},
		"a token in the class itself is refused":           {auth("token: {value: s.abc}"), `unknown field "spec.vault.auth.token.value"`},
		"an AppRole without its ID is refused":             {auth("appRole: {}"), "spec.vault.auth.appRole.roleID: Required value"},
		"an AppRole with an empty ID is refused":           {auth("appRole: {roleID: ''}"), "spec.vault.auth.appRole.roleID"},
		"an AppRole's ID of 254 characters is refused":     {auth("appRole: {roleID: " + a254 + "}"), "spec.vault.auth.appRole.roleID: Too long: may not be more than 253"},
		"a secret ID in the class itself is refused":       {auth("appRole: {roleID: a, secretID: b}"), `unknown field "spec.vault.auth.appRole.secretID"`},
		"a ServiceAccount's login needs a role":            {auth("kubernetes: {}"), "spec.vault.auth.kubernetes.role: Required value"},
		"a JSON Web Token's login needs a role":            {auth("jwt: {role: ''}"), "spec.vault.auth.jwt.role"},
		"a role of 254 characters is refused":              {auth("jwt: {role: " + a254 + "}"), "spec.vault.auth.jwt.role: Too long: may not be more than 253"},
		"a mount with a slash is accepted":                 {spec: auth("kubernetes: {role: hub, mount: clusters/prod-eu_1.k8s}")},
		"a mount that begins with a slash is refused":      {auth("jwt: {role: hub, mount: /jwt}"), "spec.vault.auth.jwt.mount"},
		"a mount that ends with a slash is refused":        {auth("jwt: {role: hub, mount: jwt/}"), "spec.vault.auth.jwt.mount"},
		"a mount that climbs out of auth/ is refused":      {auth("jwt: {role: hub, mount: ../sys}"), "spec.vault.auth.jwt.mount"},
		"a mount that climbs out in the middle is refused": {auth("jwt: {role: hub, mount: a/../../sys}"), "spec.vault.auth.jwt.mount"},
		"a mount with a query is refused":                  {auth("appRole: {roleID: a, mount: 'a?b'}"), "spec.vault.auth.appRole.mount"},
		"a mount of 254 characters is refused":             {auth("appRole: {roleID: a, mount: " + a254 + "}"), "spec.vault.auth.appRole.mount: Too long: may not be more than 253"},
		"everything of a login beside kvVersion and a namespace is accepted": {
			spec: vault("namespace: team, kvVersion: 2, auth: {appRole: {roleID: a, mount: b}}"),
		},
	}
}
