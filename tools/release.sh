#!/usr/bin/env bash
# Makes everything that a release holds in out/release, and publishes nothing.
#
#   release.sh VERSION COMMIT DATE     after make binaries and make images
#
# The same commit makes the same bytes. Signing: docs/release.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$1 commit=$2 date=$3
out=out/release
rm -rf "$out"
mkdir -p "$out"

# archive NAME FOLDER FILE...: a tar whose bytes depend on the files alone.
archive() {
  local name=$1 folder=$2
  shift 2
  tar --create --sort=name --mtime="$date" --owner=0 --group=0 --numeric-owner --mode=go=u-w --format=ustar \
    --directory "$folder" "$@" | gzip --no-name --best >"$out/$name.tar.gz"
}

for folder in out/linux-*; do
  platform=${folder#out/}
  cp LICENSE README.md "$folder/"
  # Commands of tests have no place in a release.
  commands=$(find cmd -mindepth 1 -maxdepth 1 -type d -printf '%f ')
  archive "dynamic-config-fleet_${version}_$platform" "$folder" LICENSE README.md $commands
  (cd tools/release && go run ./sbom -version "$version" -date "$date" $(for c in $commands; do echo "../../$folder/$c"; done)) \
    >"$out/dynamic-config-fleet_${version}_$platform.sbom.json"
done

for image in hub spoke; do cp "out/images/$image.tar" "$out/image-${image}_$version.tar"; done

# A chart's version is a semantic one; between releases, the chart's own with the
# commit behind it.
helm() { go tool -modfile=tools/go.mod helm "$@"; }
if [[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+ ]]; then chart_version=${version#v}; else chart_version=0.0.0-$commit; fi
charts=$(mktemp -d)
trap 'rm -rf "$charts"' EXIT
for chart in crds hub spoke; do
  helm package "deploy/charts/$chart" --version "$chart_version" --app-version "$version" --destination "$charts" >/dev/null 2>&1
  # helm stamps the time of packing: pack again what it packed.
  mkdir "$charts/$chart"
  tar --extract --gzip --file "$charts/$chart-$chart_version.tgz" --directory "$charts/$chart"
  archive "chart-$chart-$chart_version" "$charts/$chart" "$chart"
  mv "$out/chart-$chart-$chart_version.tar.gz" "$out/$chart-$chart_version.tgz"
done

for crd in deploy/crds/*.yaml; do
  echo ---
  cat "$crd"
done >"$out/crds_$version.yaml"

(cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
cat "$out/SHA256SUMS"
