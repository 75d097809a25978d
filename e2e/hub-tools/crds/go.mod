// No code is built from this module: its CRD files are read from the module cache.
module mcu.dev/hub-tools/crds

go 1.26.0

require (
	github.com/openshift/api v0.0.0-20260416105050-3c6b218b8a80
	github.com/operator-framework/api v0.36.0
	open-cluster-management.io/api v1.3.0
)
