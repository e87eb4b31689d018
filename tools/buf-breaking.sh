#!/usr/bin/env bash
# Checks that the protocol in this tree still works with the one before it.
#
# The one before is that of, in this order:
#   1. BUF_AGAINST, any git revision;
#   2. the newest tag before HEAD: what is released and runs somewhere;
#   3. where the branch left origin/main or main;
#   4. the parent commit.
# With none of them (a first commit, a shallow clone), or with no protocol in it,
# there is nothing to break and the check passes, saying so. The files are taken
# out of git first, so a worktree and a detached checkout work as well.
set -euo pipefail
cd "$(dirname "$0")/.."

base() {
  local revision head
  head=$(git rev-parse --verify --quiet HEAD 2>/dev/null) || return 0
  if [[ -n ${BUF_AGAINST:-} ]]; then
    git rev-parse --verify "$BUF_AGAINST^{commit}"
    return
  fi
  if revision=$(git describe --tags --abbrev=0 "$head^" 2>/dev/null); then
    git rev-parse --verify "$revision^{commit}"
    return
  fi
  for branch in origin/main main; do
    if revision=$(git merge-base "$head" "$branch" 2>/dev/null) && [[ $revision != "$head" ]]; then
      echo "$revision"
      return
    fi
  done
  git rev-parse --verify --quiet "$head^" || true
}

against=$(base)
if [[ -z $against ]]; then
  echo "buf breaking: no earlier commit here, nothing to compare with"
  exit 0
fi
if ! git ls-tree -r --name-only "$against" -- proto | grep '\.proto$' >/dev/null; then
  echo "buf breaking: no protocol in $against, nothing to compare with"
  exit 0
fi
before=$(mktemp -d)
trap 'rm -rf "$before"' EXIT
git archive "$against" buf.yaml proto | tar -x -C "$before"
echo "buf breaking: against $against"
go tool -modfile=tools/go.mod buf breaking --against "$before"
