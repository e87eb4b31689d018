#!/usr/bin/env bash
# What stands for the image golang of a registry in deploy/images/Dockerfile: Debian's
# files, this machine's Go, and the modules of go.mod as a module proxy in a folder. It
# is stamped with what it is made of, and made once.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$KIND_SCRIPTS/../.."
image=golang:$(sed -n 's/^ARG GO_VERSION=//p' deploy/images/Dockerfile)
stamp=$({ go version && cat go.sum "$KIND_SCRIPTS"/{golang-image,node-rootfs}.sh; } | sha256sum | cut -c1-16)
if [ "$(docker image inspect -f '{{.Config.Labels.stamp}}' "$image" 2>/dev/null)" = "$stamp" ]; then
  say "the image $image is there"
  exit 0
fi
step "debootstrap" "$KIND_SCRIPTS/node-rootfs.sh"

files=$KIND_CACHE/golang
modules=$KIND_CACHE/modules
rm -rf "$files" "$modules"
# Out of the machine's cache, as far as it has them, into one of its own, so that the
# image holds the product's modules and no more.
proxy=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GOMODCACHE=$modules GOFLAGS=-modcacherw GOPROXY=$proxy go mod download
cp -a "$KIND_CACHE/rootfs" "$files"
cp -a "$(go env GOROOT)" "$files/usr/local/go"
mkdir -p "$files"/go/{bin,src}
mv "$modules/cache/download" "$files/modules"

# The environment of golang's own image, and a proxy that needs no network.
tar -C "$files" --numeric-owner -c . | docker import \
  --change 'ENV PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'ENV GOPATH=/go GOTOOLCHAIN=local GOPROXY=file:///modules' --change 'WORKDIR /go' \
  --change "LABEL stamp=$stamp" - "$image" >/dev/null
rm -rf "$files" "$modules"
