#!/usr/bin/env bash
# The images that the kind tests need beside the product's: the stores, from the
# binaries of the tests, a workload, and cert-manager.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$KIND_SCRIPTS/../.."
arch=$(go env GOARCH)
binaries=$PWD/out/linux-$arch
mkdir -p "$binaries"
for name in consul vaultdev; do
  cp "$(go run ./internal/testbin/cmd/testbin -path $name)" "$binaries/$name"
done
go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$binaries/app" ./e2e/kind/app
step "building certmanager" go build -C "$KIND_SCRIPTS/certmanager" -trimpath -buildvcs=false -ldflags "-s -w" -o "$binaries/certmanager" .
for name in consul vaultdev app certmanager; do
  go run -C tools/release ./image -name dynamic-config.e2e/$name:e2e -command $name -binaries "$PWD/out" -out "$PWD/out/images" \
    -date 2026-01-01T00:00:00Z -architectures "$arch"
done
