# Headgate: the two commands of the README, and targets for development.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST ?= $(BIN)/python -m pytest
PIP := tools/quietly.sh $(BIN)/python -m pip --disable-pip-version-check -q
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
COMPILE_STAMP := $(VENV)/.installed-compile
EXAMPLE ?= examples/quickstart
IMAGES ?= examples/images/simulated.yaml
IMAGE ?= headgate
PYTHONS ?= python3.11 python3.12 python3.13
CONTROL_PLANE = $(or $(wildcard $(BIN)/python),$(PYTHON)) tools/control_plane
CLUSTER_WORKLOADS := $(wildcard $(addprefix tests/control_plane/,autoscaling beside models planning))
CONFORMANCE := tests/control_plane/conformance
IF_ANY = $(if $(findstring -k,$(ARGS)),|| test $$? = 5)
DATA_PATH := $(wildcard $(addprefix tests/,auth extproc fleet flow gateway picker requests routing rpc scheduling))

.PHONY: up install compiled wheels image pure fresh test test-all check unit test-long unit-compiled test-api test-cluster cluster-workloads cluster-rest cluster-api control-plane lws helm monitoring keda envoy-gateway conformance-suites conformance reference-pickers kustomize-base redis-server kubectl s3-server envoy chromium real-engine bench bench-routing bench-autoscaling bench-autoscaling-live bench-routing-live bench-decisions bench-planning bench-path bench-picker bench-picker-path bench-rpc bench-fairness bench-apiserver bench-cluster bench-attacks soak soak-health soak-picker soak-autoscaling soak-limits generated lock clean help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 21

up: $(STAMP) fresh  ## install Headgate into .venv and start the quickstart, or EXAMPLE, with the commands of IMAGES
	@$(BIN)/headgate up $(EXAMPLE) --images $(IMAGES)

install: $(STAMP) fresh  ## install Headgate into .venv

compiled: $(COMPILE_STAMP)  ## compile the data path with mypyc; takes two minutes and needs a C compiler
	@$(BIN)/python tools/compile.py

wheels:  ## build a pure Python wheel, and a compiled one for each of PYTHONS, into dist
	@$(PYTHON) tools/wheels.py $(PYTHONS)

image:  ## build the container image IMAGE with docker, podman or buildah
	@tools/image.sh $(IMAGE) $(ARGS)

pure: $(STAMP)  ## remove the compiled modules: Headgate runs as pure Python again
	@$(BIN)/python tools/compile.py pure

fresh: $(STAMP)
	@$(BIN)/python tools/compile.py fresh

test: check  ## static checks, then the tests of all rooms
	@$(MAKE) --no-print-directory unit ARGS="-m 'not whole'"

test-all:  ## static checks, then all tests, also of the whole system, and in a control plane if one is built
	@$(CONTROL_PLANE) check || test $$? = 1
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory unit ARGS="-m whole"
	@if $(CONTROL_PLANE) check >/dev/null; then $(MAKE) --no-print-directory test-cluster ARGS=; fi
	@$(CONTROL_PLANE) check || test $$? = 1

check: $(DEV_STAMP)  ## ruff, additional source rules, mypy --strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_source.py
	$(BIN)/python tools/check_circles.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(DEV_STAMP) pure redis-server kubectl s3-server envoy chromium  ## the tests that need no control plane, as pure Python (ARGS="-k name" selects tests)
	$(PYTEST) $(ARGS)

test-long:  ## the test suite, with more and other examples of hypothesis (ARGS="tests/flow" selects tests)
	@$(MAKE) --no-print-directory unit ARGS="--hypothesis-profile=explore $(ARGS)"

unit-compiled: $(DEV_STAMP) compiled redis-server envoy  ## the tests of the data path, compiled
	$(PYTEST) $(ARGS) $(DATA_PATH)

test-api: $(DEV_STAMP)  ## the API tests against another server (KUBECONFIG=...) with our CRDs installed
	@test -n "$(KUBECONFIG)" || { echo "Name a server: make test-api KUBECONFIG=path"; exit 2; }
	HEADGATE_TEST_KUBECONFIG="$(KUBECONFIG)" $(PYTEST) tests/conformance $(ARGS) $(IF_ANY)

test-cluster: $(DEV_STAMP) control-plane  ## the tests in a Kubernetes control plane, which is built before (ARGS="-k name")
	@$(MAKE) --no-print-directory -j2 --output-sync=target cluster-workloads cluster-rest cluster-api

cluster-workloads:
	@$(CONTROL_PLANE) run $(PYTEST) -n0 $(CLUSTER_WORKLOADS) $(ARGS) $(IF_ANY)

cluster-rest:
	@$(CONTROL_PLANE) run $(PYTEST) -n0 tests/control_plane $(addprefix --ignore=,$(CLUSTER_WORKLOADS) $(CONFORMANCE)) $(ARGS) $(IF_ANY)

cluster-api:
	@$(CONTROL_PLANE) run $(CONTROL_PLANE) beside $(MAKE) --no-print-directory test-api ARGS="-n0 $(ARGS)"

control-plane:  ## build a Kubernetes control plane and LWS for the tests into the user's cache; takes eight minutes and needs Go
	@$(CONTROL_PLANE) build
	@$(CONTROL_PLANE) build-lws

lws:  ## build LWS, the controller of LeaderWorkerSets, for the tests into the user's cache; needs Go
	@$(CONTROL_PLANE) build-lws

helm:  ## build Helm 3 and 4 for the tests of the chart into the user's cache; takes a few minutes and needs Go
	@$(CONTROL_PLANE) build-helm

monitoring:  ## fetch Prometheus and build its adapter for tests in a control plane into the user's cache; takes a few minutes and needs Go
	@$(CONTROL_PLANE) build-monitoring

keda:  ## build KEDA for tests in a control plane into the user's cache; takes ten minutes and needs Go
	@$(CONTROL_PLANE) build-keda

envoy-gateway:  ## build Envoy Gateway and its extension for InferencePools for tests in a control plane into the user's cache; takes ten minutes and needs Go
	@$(CONTROL_PLANE) build-suites envoy-gateway

conformance-suites:  ## build the conformance suites of the Gateway API, and what they run, into the user's cache; needs Go
	@$(CONTROL_PLANE) build-suites gateway-suites

reference-pickers:  ## build the reference endpoint pickers for bench-picker into the user's cache; takes twenty minutes and needs Go
	@$(CONTROL_PLANE) build-suites epp llm-d

conformance: $(DEV_STAMP) control-plane conformance-suites  ## run the conformance suites of the Gateway API, and write their reports to docs/conformance
	@HEADGATE_TEST_REPORTS=docs/conformance $(CONTROL_PLANE) run $(PYTEST) -n0 $(CONFORMANCE) $(ARGS)

kustomize-base: helm  ## render deploy/kustomize/base from the Helm chart
	@$(PYTHON) tools/kustomize_base.py "$$($(CONTROL_PLANE) path-helm | head -n 1)"

redis-server:  ## fetch redis-server for the tests into .cache, unless it is on PATH
	@tools/fetch_redis.sh

envoy:  ## install Envoy for the tests into the user's cache, unless it is on PATH
	@PYTHON=$(PYTHON) tools/fetch_envoy.sh

chromium:  ## install Chromium for the tests of the dashboard with apt, unless it is on PATH
	@tools/fetch_chromium.sh

kubectl:  ## fetch or build kubectl for the tests into the user's cache, unless it is on PATH
	@tools/fetch_kubectl.sh

real-engine:  ## install vLLM for CPUs into the user's cache, for the tests of a real engine; 3 GB, takes a few minutes
	@tools/real_engine.sh

s3-server:  ## build an S3 server for the tests into the user's cache, unless it is on PATH; needs Go
	@tools/fetch_s3_server.sh

bench: $(DEV_STAMP)  ## CPU per request and chunk, memory per connection and route, compared with nginx, Envoy, the Rust routers and LiteLLM
	$(BIN)/python bench/gateway.py $(ARGS)

bench-routing: $(DEV_STAMP)  ## our policies and published ones on traces, in virtual time (ARGS="--traces DIR")
	$(BIN)/python bench/routing.py $(ARGS)

bench-autoscaling: $(DEV_STAMP)  ## our autoscaler and published ones on traces, in virtual time (ARGS="--traces DIR")
	$(BIN)/python bench/autoscaling.py $(ARGS)

bench-autoscaling-live: $(DEV_STAMP)  ## how fast a step in load is met, and a model at zero answers, with real processes
	$(BIN)/python bench/autoscaling_live.py $(ARGS)

bench-routing-live: $(DEV_STAMP)  ## routing of a trace over HTTP, compared with Rust routers (ARGS="--trace FILE")
	$(BIN)/python bench/routing_live.py $(ARGS)

bench-path: $(DEV_STAMP)  ## CPU time and calls of one request and one chunk, without sockets
	$(BIN)/python bench/data_path.py

bench-picker: $(DEV_STAMP)  ## CPU time of endpoint pickers and of Envoy for each request, ours and others
	$(BIN)/python bench/picker.py $(ARGS)

bench-picker-path: $(DEV_STAMP)  ## CPU time and calls of one request in the picker, without sockets
	$(BIN)/python bench/picker_path.py

bench-rpc: $(DEV_STAMP)  ## CPU time of one gRPC stream, ours and grpc.aio
	$(BIN)/python bench/rpc_messages.py

bench-decisions: $(DEV_STAMP)  ## CPU time of the decisions for each request, pure and compiled
	@$(BIN)/python tools/compile.py pure
	@mkdir -p .cache
	@$(BIN)/python bench/decisions.py --write .cache/decisions.json > /dev/null
	@$(BIN)/python tools/compile.py
	@$(BIN)/python bench/decisions.py --beside .cache/decisions.json

bench-planning: $(DEV_STAMP)  ## how fast plans are proven, a simulation that confirms them, and planners on traces (ARGS="--traces DIR")
	$(BIN)/python bench/planning.py $(ARGS)

bench-fairness: $(DEV_STAMP)  ## cost of a noisy neighbor for other tenants, by queue (ARGS="--live" for HTTP)
	$(BIN)/python bench/fairness.py $(ARGS)

bench-apiserver: $(DEV_STAMP)  ## performance of the embedded API server: creates, lists, watches, memory
	$(BIN)/python bench/apiserver.py $(ARGS)

bench-cluster: $(DEV_STAMP) control-plane  ## memory and CPU at rest in a Kubernetes control plane, and the delay of an edit
	@$(CONTROL_PLANE) run $(BIN)/python bench/cluster_at_rest.py $(ARGS)

bench-attacks: $(DEV_STAMP)  ## effect of attacks on other clients: latency, memory, errors (ARGS="--only forms")
	$(BIN)/python bench/attacks.py $(ARGS)

soak: $(DEV_STAMP)  ## ten minutes with failing engines, changes and killed workers (ARGS="--minutes 2")
	$(BIN)/python bench/soak.py $(ARGS)

soak-health: $(DEV_STAMP)  ## ten minutes with randomly failing engines, compared with an ideal picker
	$(BIN)/python bench/soak_health.py $(ARGS)

soak-picker: $(DEV_STAMP)  ## an hour of pickers that are killed and replaced behind Envoy (ARGS="--minutes 3")
	$(BIN)/python bench/soak_picker.py $(ARGS)

soak-autoscaling: $(DEV_STAMP)  ## an hour of random load, with engines, controllers and gateways killed (ARGS="--minutes 5")
	$(BIN)/python bench/soak_autoscaling.py $(ARGS)

soak-limits: $(DEV_STAMP) redis-server  ## two minutes of one limit shared by four gateways, while their Redis fails
	$(BIN)/python bench/limits_redis.py $(ARGS)

generated: $(DEV_STAMP)  ## regenerate deploy/crds and the tables of docs/ from the code
	$(BIN)/headgate crds --dir deploy/crds
	$(BIN)/python tools/reference_tables.py
	$(BIN)/python tools/kubernetes_schemas.py
	$(BIN)/python tools/settings_table.py
	$(BIN)/python tools/telemetry_tables.py
	$(BIN)/python tools/monitoring
	$(BIN)/python tools/deployment.py
	$(BIN)/python tools/compare_servers table

lock:  ## update the lock files from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --universal --generate-hashes --no-header --no-emit-index-url -q -o requirements.lock
	uv pip compile pyproject.toml --extra otel --universal --generate-hashes --no-header --no-emit-index-url -q \
		-c requirements.lock -o requirements-otel.lock
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --no-emit-index-url -q \
		-c requirements-otel.lock -o requirements-dev.lock
	uv pip compile pyproject.toml --group compile --universal --generate-hashes --no-header --no-emit-index-url -q \
		-c requirements-dev.lock -o requirements-compile.lock
	uv pip compile --group pyproject.toml:image --universal --generate-hashes --no-header --no-emit-index-url -q \
		-o requirements-image.lock

$(STAMP): requirements.lock pyproject.toml
	@tools/environment.sh $(PYTHON) $(VENV)
	@echo "Installing Headgate ..."
	@$(PIP) install -r requirements.lock
	@$(PIP) install --no-deps -e .
	@touch $@

# The messages of Envoy come with packages of the names of others, such as the one of CEL, which they would overwrite: they get a
# folder of their own, without these.
$(DEV_STAMP): $(STAMP) requirements-dev.lock requirements-protos.lock
	@echo "Installing the development tools ..."
	@$(PIP) install -r requirements-dev.lock
	@$(PIP) install --no-deps --upgrade --target $(VENV)/protos -r requirements-protos.lock
	@cd $(VENV)/protos && rm -rf cel opencensus opentelemetry test
	@touch $@

$(COMPILE_STAMP): $(STAMP) requirements-compile.lock
	@echo "Installing mypyc ..."
	@$(PIP) install -r requirements-compile.lock
	@touch $@

clean:  ## remove the environment, compiled modules, caches and local state
	find src -name '*.so' -delete
	rm -rf build $(VENV) .cache .headgate .mypy_cache .ruff_cache .pytest_cache
