# The commands of a developer. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
READY := .venv/.ready
PYTEST ?=
PROVE ?=
DEMO ?=
TRIXIE := build/brokers/trixie
LOCK := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST) | sort

.PHONY: venv
venv: $(READY) ## Make .venv from the hashed lock

$(READY): requirements-dev.lock pyproject.toml scripts/make-venv.sh
	sh scripts/make-venv.sh

.PHONY: broker-install
broker-install: $(READY) ## Install a RabbitMQ server with apt if there is none; starts no system broker
	@sh scripts/broker-install.sh

.PHONY: postgres-install
postgres-install: $(READY) ## Install a PostgreSQL server with apt if there is none; starts no system database
	@sh scripts/postgres-install.sh

.PHONY: prometheus-install
prometheus-install: ## Install Prometheus and Alertmanager with apt if they are missing; starts no system service
	@sh scripts/prometheus-install.sh

.PHONY: browser-install
browser-install: ## Install Chromium with apt if it is missing, and fetch axe-core; the tests of the pages use both
	@sh scripts/browser-install.sh
	@sh scripts/axe-install.sh

.PHONY: nginx-install iproute2-install faketime-install stress-ng-install pngquant-install
nginx-install: ## Install nginx with apt if it is missing; starts no system service
	@sh scripts/nginx-install.sh

iproute2-install:
	@command -v ip >/dev/null || sh scripts/apt-install.sh iproute2

faketime-install:
	@command -v faketime >/dev/null || sh scripts/apt-install.sh faketime

stress-ng-install:
	@command -v stress-ng >/dev/null || sh scripts/apt-install.sh stress-ng

pngquant-install:
	@command -v pngquant >/dev/null || sh scripts/apt-install.sh pngquant

.PHONY: test
test: lint broker-install postgres-install prometheus-install browser-install nginx-install iproute2-install ## Run all checks of CI: style, types, layers, tests
	$(BIN)/python -m tests.support.parts $(PYTEST)

.PHONY: coverage
coverage: broker-install postgres-install prometheus-install browser-install nginx-install iproute2-install ## Run the tests again with their coverage, which takes twice as long
	$(BIN)/coverage erase
	$(BIN)/python -m tests.support.parts --cov $(PYTEST)

.PHONY: dashboard
dashboard: $(READY) ## Write grafana/dashboards/*.json and grafana/export/*.json anew from grafana/boards/*.py
	$(BIN)/python -m grafana.generate

.PHONY: alerts
alerts: $(READY) ## Write grafana/alerts.yml and its cases anew from consumer/core/tools/alerts
	$(BIN)/python -m grafana.alerts

.PHONY: lint
lint: $(READY) ## Check style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY) ## Rewrite the sources in the house style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: run
run: $(READY) ## Run the daemon (on the private broker unless LEVERET_AMQP_URL or _FILE is set)
	@if [ -z "$${LEVERET_AMQP_URL:-}$${LEVERET_AMQP_URL_FILE:-}" ]; then sh scripts/broker-install.sh; fi
	$(BIN)/leveret run

.PHONY: demo
demo: broker-install ## Show Leveret at work: a private broker, six endpoints, five tenants; Ctrl-C ends all of it
	@$(BIN)/python -m demo $(DEMO)

.PHONY: prove-core
prove-core: broker-install nginx-install ## Measure the core's promises; writes build/prove-core.json
	$(BIN)/python -m bench.prove_core $(PROVE)

.PHONY: prove-egress
prove-egress: $(READY) nginx-install iproute2-install ## Measure the sender's promises; needs root for its networks; writes build/prove-egress.json
	$(BIN)/python -m bench.prove_egress $(PROVE)

.PHONY: prove-newcomer
prove-newcomer: broker-install postgres-install ## Measure the first hour's promises; writes build/prove-newcomer.json
	$(BIN)/python -m bench.prove_newcomer $(PROVE)

.PHONY: prove-outage
prove-outage: broker-install ## Measure the cost of sick endpoints and who bears it; writes build/prove-outage.json
	$(BIN)/python -m bench.prove_outage $(PROVE)

.PHONY: prove-fairness
prove-fairness: broker-install nginx-install ## Measure the sharing of a worker among tenants; writes build/prove-fairness.json
	$(BIN)/python -m bench.prove_fairness $(PROVE)

.PHONY: prove-loss
prove-loss: broker-install postgres-install faketime-install ## Measure former causes of lost or late deliveries, on both brokers; needs root
	failed=0; $(BIN)/python -m bench.prove_loss $(PROVE) || failed=1; \
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(BIN)/python -m bench.prove_loss \
		--broker-version 4.0. --suffix _4 $(PROVE) || failed=1; exit $$failed

.PHONY: prove-hostile
prove-hostile: broker-install ## Measure the effect of hostile input, on both brokers; needs root
	failed=0; $(BIN)/python -m bench.prove_hostile $(PROVE) || failed=1; \
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(BIN)/python -m bench.prove_hostile \
		--broker-version 4.0. --suffix _4 $(PROVE) || failed=1; exit $$failed

.PHONY: prove-loop
prove-loop: broker-install iproute2-install ## Measure the closed loop, in a cluster too, on both brokers; needs root for its networks
	failed=0; $(BIN)/python -m bench.prove_loop $(PROVE) || failed=1; \
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(BIN)/python -m bench.prove_loop \
		--broker-version 4.0. --suffix _4 $(PROVE) || failed=1; exit $$failed

.PHONY: prove-history
prove-history: broker-install postgres-install nginx-install ## Measure the history of deliveries; needs root for the second broker
	failed=0; $(BIN)/python -m bench.prove_history $(PROVE) || failed=1; \
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(BIN)/python -m bench.prove_history \
		--broker-version 4.0. --suffix _4 $(PROVE) || failed=1; exit $$failed

.PHONY: prove-operate
prove-operate: broker-install postgres-install browser-install nginx-install ## Measure the HTTP API and the pages; writes build/prove-operate.json
	$(BIN)/python -m bench.prove_operate $(PROVE)

.PHONY: prove-observe
prove-observe: broker-install prometheus-install nginx-install ## Measure what an operator sees and its cost; writes build/prove-observe.json
	$(BIN)/python -m bench.prove_observe $(PROVE)

.PHONY: prove-house
prove-house: broker-install postgres-install prometheus-install browser-install nginx-install stress-ng-install ## Measure the code's structure, its cost against before, and the suite under load
	$(BIN)/python -m bench.prove_house $(PROVE)

.PHONY: screenshots
screenshots: broker-install browser-install pngquant-install ## Take pictures of every page from the real product; writes docs/pages/*.png
	$(BIN)/python -m bench.pictures

.PHONY: previews
previews: broker-install prometheus-install browser-install pngquant-install ## Draw previews of the dashboards from a real Prometheus; writes docs/dashboards/*.png
	$(BIN)/python -m bench.previews

.PHONY: fairness-sim
fairness-sim: $(READY) ## Simulate 1,000 tenants on 20 workers; writes docs/fairness.svg
	$(BIN)/python -m bench.fairness_sim

.PHONY: bench-match
bench-match: $(READY) ## Time the matcher with 10,000 subscriptions
	$(BIN)/python -m bench.match

.PHONY: test-interop
test-interop: $(READY) ## Verify our signatures with the npm verifier and openssl
	sh tests/interop/run.sh

.PHONY: test-brokers
test-brokers: $(READY) ## Run the suite and the core proof on RabbitMQ 4.0 (Debian trixie); needs root
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(BIN)/pytest --no-skips --broker-version=4.0. $(PYTEST)
	sh scripts/broker-chroot.sh trixie $(TRIXIE) $(MAKE) prove-core \
		PROVE="--output build/prove-core-4.0.json --broker-version 4.0."

.PHONY: lock
lock: ## Resolve the dependencies again, within pyproject's bounds; needs uv
	@command -v uv >/dev/null || { echo "make lock needs uv: https://docs.astral.sh/uv/" >&2; exit 1; }
	$(LOCK) pyproject.toml --output-file requirements.lock
	$(LOCK) pyproject.toml --extra otel --constraint requirements.lock --output-file requirements-otel.lock
	$(LOCK) pyproject.toml --extra otel --group dev --constraint requirements-otel.lock \
		--output-file requirements-dev.lock

.PHONY: clean
clean: ## Remove the built files; the private broker's data in .leveret stays
	sh scripts/clean.sh
