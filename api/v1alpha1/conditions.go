package v1alpha1

// Condition types of a DynamicConfigRender, a class and a SpokeCluster.
const (
	// ConditionReady summarises an object: True when it does what it is for.
	ConditionReady = "Ready"
	// ConditionFetched says whether the hub got the document from the store.
	ConditionFetched = "Fetched"
	// ConditionApplied says whether the target holds the rendered document.
	ConditionApplied = "Applied"
	// ConditionStale is True while the spoke has lost the hub for longer than
	// it should; the target keeps its last good content. Absent otherwise.
	ConditionStale = "Stale"
	// ConditionStalled is True while a Render needs a change by a person, of itself, its
	// document or its target: trying again alone does not help. Its reason is that of
	// the finer cause. Absent otherwise. It is what tells tools that follow kstatus a
	// failure from a wait.
	ConditionStalled = "Stalled"
	// ConditionConnected says whether a SpokeCluster's agent holds a session.
	ConditionConnected = "Connected"
	// ConditionKeysPinned says whether the keys that a SpokeCluster's agent reports
	// are all pinned. Absent while there are none.
	ConditionKeysPinned = "KeysPinned"
	// ConditionContested is True while two agents take each other's session of one
	// SpokeCluster away. Absent otherwise.
	ConditionContested = "Contested"
)

// Reasons of a Render's Ready condition. There are no others.
const (
	// ReasonRendered (True): the target holds the current document. Nobody's
	// problem.
	ReasonRendered = "Rendered"
	// ReasonClassNotFound (False): no class of that kind and name on the hub.
	// The tenant's: correct spec.class or spec.classKind, or ask the platform
	// team for the class.
	ReasonClassNotFound = "ClassNotFound"
	// ReasonClassNotAllowed (False): the class exists and does not serve this
	// cluster, namespace, key or target. The tenant's (key) or the platform
	// team's: the tenant corrects spec.key or uses another class, or the
	// platform team widens the class.
	ReasonClassNotAllowed = "ClassNotAllowed"
	// ReasonRenderFailed (False): fetching, rendering or applying failed. The
	// finer cause is on Fetched or Applied.
	ReasonRenderFailed = "RenderFailed"
	// ReasonPending (Unknown): not looked at yet, or no hub has answered yet.
	// Nobody's, unless it stays: then see the agent's connection to the hub.
	ReasonPending = "Pending"
)

// Reasons of a Render's Fetched condition.
const (
	// ReasonFetched (True): the hub has the document.
	ReasonFetched = "Fetched"
	// ReasonStoreUnreachable: the store's address refuses or does not answer, or
	// it answers with a server error. The platform team's: store or network.
	ReasonStoreUnreachable = "StoreUnreachable"
	// ReasonStoreTimeout: the store answered too slowly. The platform team's.
	ReasonStoreTimeout = "StoreTimeout"
	// ReasonStoreTLSFailed: the store's certificate is not accepted, or the hub's by
	// the store, or the CA or client certificate of the class cannot be used. The
	// class owner's: spec.tls of the class.
	ReasonStoreTLSFailed = "StoreTLSFailed"
	// ReasonCredentialNotFound: the class's credential or client certificate Secret,
	// or a key in it, does not exist on the hub. The class owner's: create it.
	ReasonCredentialNotFound = "CredentialNotFound"
	// ReasonCredentialRejected: the store does not accept the credential. The
	// class owner's: renew it.
	ReasonCredentialRejected = "CredentialRejected"
	// ReasonKeyForbidden: the credential may not read this key. The class
	// owner's: widen its policy in the store, or the tenant's: another key.
	ReasonKeyForbidden = "KeyForbidden"
	// ReasonStoreThrottled: the store asked for patience. The platform team's if
	// it stays: spec.limits of the class.
	ReasonStoreThrottled = "StoreThrottled"
	// ReasonStoreSealed: the store is sealed or not initialised. The platform
	// team's: unseal it.
	ReasonStoreSealed = "StoreSealed"
	// ReasonDocumentNotFound: nothing at this key, or nothing this credential
	// may see. The tenant's: write the document or correct spec.key.
	ReasonDocumentNotFound = "DocumentNotFound"
	// ReasonDocumentDeleted: the document was there and its current version is
	// deleted or destroyed. The document's owner: write a new version.
	ReasonDocumentDeleted = "DocumentDeleted"
	// ReasonDocumentTooLarge: the document is larger than 4 MiB, or what would be
	// written is larger than 1,000,000 bytes. The tenant's: split it.
	ReasonDocumentTooLarge = "DocumentTooLarge"
	// ReasonDocumentInvalid: the document does not parse, has no format, or has
	// no such section. The document's owner: correct the place named.
	ReasonDocumentInvalid = "DocumentInvalid"
)

// Reasons of a Render's Applied condition.
const (
	// ReasonApplied (True): the target holds what was rendered.
	ReasonApplied = "Applied"
	// ReasonTargetInvalid: spec.target cannot be written as asked. The tenant's.
	ReasonTargetInvalid = "TargetInvalid"
	// ReasonShapeInvalid: the shape or file format cannot hold this document.
	// The tenant's: another shape or file extension.
	ReasonShapeInvalid = "ShapeInvalid"
	// ReasonKeyInvalid: a name in the document is no valid data key; on Fetched:
	// spec.key is no valid key of the store. The tenant's: rename it.
	ReasonKeyInvalid = "KeyInvalid"
	// ReasonKeyCollision: two places of the document would get one name. The
	// document's owner: rename one.
	ReasonKeyCollision = "KeyCollision"
	// ReasonSecrecyDowngrade: a secret document was to go into a ConfigMap. The
	// tenant's: use spec.target.secret.
	ReasonSecrecyDowngrade = "SecrecyDowngrade"
	// ReasonTargetNotOwned: an object of the target's name exists and is nobody's
	// of ours. The tenant's: another name, or spec.target.adopt.
	ReasonTargetNotOwned = "TargetNotOwned"
	// ReasonTargetConflict: another Render, controller or field manager owns the
	// target. The tenant's: decide who writes it.
	ReasonTargetConflict = "TargetConflict"
	// ReasonTargetImmutable: the target is marked immutable. The tenant's: remove
	// it, or use another name.
	ReasonTargetImmutable = "TargetImmutable"
	// ReasonTargetTypeConflict: the Secret exists with another type. The
	// tenant's: remove it, or state its type.
	ReasonTargetTypeConflict = "TargetTypeConflict"
	// ReasonAdmissionDenied: an admission policy of the workload cluster refused
	// the target. The workload cluster's administrator's.
	ReasonAdmissionDenied = "AdmissionDenied"
	// ReasonQuotaExceeded: the namespace's quota is used up. The tenant's.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonApplyForbidden: the agent may not write the target. The workload
	// cluster's administrator's: the agent's RBAC.
	ReasonApplyForbidden = "ApplyForbidden"
	// ReasonNamespaceTerminating: the namespace is being deleted. Nobody's.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonApplyFailed: the workload cluster's API server failed to answer; it is
	// tried again. The workload cluster's administrator's if it stays.
	ReasonApplyFailed = "ApplyFailed"
)

// Reasons of other conditions.
const (
	// ReasonHubLost (Stale True): no session with the hub for longer than it
	// should. The platform team's: hub, network or the agent's certificate.
	ReasonHubLost = "HubLost"
	// ReasonSuspended: spec.suspend is set; nothing is fetched or written. The
	// owner's of the object: resume it.
	ReasonSuspended = "Suspended"
	// ReasonConnected (Connected True): the agent holds a session with a hub.
	ReasonConnected = "Connected"
	// ReasonDisconnected (Connected False): no agent holds a session. The
	// workload cluster's administrator's: the agent or its network.
	ReasonDisconnected = "Disconnected"
	// ReasonNotAccepted: a platform administrator has not accepted the cluster
	// yet: spec.accepted.
	ReasonNotAccepted = "NotAccepted"
	// ReasonKeysPinned (KeysPinned True): the cluster signs with keys that are pinned.
	// Nobody's problem.
	ReasonKeysPinned = "KeysPinned"
	// ReasonKeysUnknown (KeysPinned False): the cluster publishes a key that is not
	// pinned; once it signs with that key alone, the agent cannot enrol. The platform
	// team's: compare, then add it to spec.keys, or set spec.keyUpdates to Accept.
	ReasonKeysUnknown = "KeysUnknown"
	// ReasonAgentsAlternate (Contested True): two agents with the cluster's identity
	// take the session from each other. The workload cluster's administrator's: end
	// one of them; if it is not yours, revoke the cluster.
	ReasonAgentsAlternate = "AgentsAlternate"
	// ReasonClassReady (class Ready True): credential found, store answers.
	ReasonClassReady = "ClassReady"
	// ReasonClassInvalid (class Ready False): the class cannot be used as
	// written, for instance an endpoint with user info. The class owner's.
	ReasonClassInvalid = "ClassInvalid"
	// ReasonInternalError: a fault of the product. Report it with the hub's log.
	ReasonInternalError = "InternalError"
)
