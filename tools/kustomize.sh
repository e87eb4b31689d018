#!/usr/bin/env bash
# Renders the kustomize bases from the charts, so that there is one source.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# render CHART FILE VALUES...
render() {
  local chart=$1 file=$2
  shift 2
  {
    echo "# Rendered from deploy/charts/$chart by make generate-kustomize."
    go tool -modfile=tools/go.mod helm template "$chart" "deploy/charts/$chart" \
      --namespace dynamic-config-system "$@" |
      sed -e '/^# Source: /d' -e '/helm.sh\/chart: /d' -e '/app.kubernetes.io\/managed-by: Helm/d' \
        -e '/^$/d'
  } >"deploy/kustomize/$file"
}

agent=(--set cluster=this-cluster --set hub.address=hub.example:8443 --set hub.ca.configMap.name=dynamic-config-hub-ca)
render hub hub/hub.yaml
render hub hub-web/web.yaml --set web.enabled=true --show-only templates/web.yaml
render spoke spoke/spoke.yaml "${agent[@]}"
# The rights in one namespace, whichever it is applied to.
render spoke spoke-namespaced/tenant/role.yaml "${agent[@]}" --set watchNamespaces='{any}' --show-only templates/rbac-namespaces.yaml
sed -i '/^  namespace: any$/d' deploy/kustomize/spoke-namespaced/tenant/role.yaml
