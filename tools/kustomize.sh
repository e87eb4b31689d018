#!/usr/bin/env bash
# Renders the kustomize bases from the charts, so that there is one source.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

render() { # base, values
  local base=$1
  shift
  {
    echo "# Rendered from deploy/charts/$base by make generate-kustomize."
    go tool -modfile=tools/go.mod helm template "$base" "deploy/charts/$base" \
      --namespace dynamic-config-system "$@" |
      sed -e '/^# Source: /d' -e '/helm.sh\/chart: /d' -e '/app.kubernetes.io\/managed-by: Helm/d' \
        -e '/^$/d'
  } >"deploy/kustomize/$base/$base.yaml"
}

render hub
render spoke --set cluster=this-cluster --set hub.address=hub.example:8443 \
  --set hub.ca.configMap.name=dynamic-config-hub-ca
