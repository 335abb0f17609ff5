"""Names of the protocol between proxies and pickers."""

DESTINATION = "x-gateway-destination-endpoint"
SUBSET_NAMESPACE = "envoy.lb"
