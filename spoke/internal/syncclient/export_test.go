package syncclient

// FromStatus is fromStatus, for tests.
var FromStatus = fromStatus
