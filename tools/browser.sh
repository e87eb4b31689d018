#!/usr/bin/env bash
# Makes sure that there is a Chromium for the tests of the fleet page, or says why they
# are left out. It never fails: the product and all other tests need no browser.
set -euo pipefail

for name in chromium chromium-browser google-chrome chrome headless-shell; do
  if path=$(command -v "$name"); then
    echo "browser: $path"
    exit 0
  fi
done

left_out() {
  echo "browser: $1: the tests of the fleet page in a browser are LEFT OUT. Install Chromium to run them."
  exit 0
}

command -v apt-get >/dev/null || left_out "there is no Chromium, and this is no Debian to install it from"
[[ $(id -u) == 0 ]] || left_out "there is no Chromium, and only root can install it"

echo "browser: installing chromium (about 110 MB to fetch)"
install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium)
"${install[@]}" || { apt-get update && "${install[@]}"; } || left_out "apt-get cannot install chromium"
echo "browser: $(command -v chromium)"
