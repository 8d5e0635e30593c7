# Two commands do everything: `make demo` and `make test`. Both install what is missing first.

CARGO ?= cargo
DEMO_FLAGS ?=
BENCH_FLAGS ?=
PEERS_FLAGS ?=
# Query metadata is committed; no build needs a database, whatever DATABASE_URL says.
export SQLX_OFFLINE := true
BIN := $(or $(CARGO_TARGET_DIR),target)/debug/stokehold

.PHONY: demo test soak setup build guests lint bench bench-all bench-quick bench-peers sqlx clean

## Everything at work: real handlers, real jobs, a table of outcomes; the server stays up.
demo: setup build guests
	$(BIN) demo $(DEMO_FLAGS)

## Every test.
test: setup build guests
	$(BIN) with-postgres -- $(CARGO) test --workspace --locked --no-fail-fast

## The long tests in their full size.
soak: setup build guests
	STOKEHOLD_SOAK=1 $(BIN) with-postgres -- $(CARGO) test --locked -p stokehold-tests --test e2e -- --include-ignored

setup:
	@scripts/setup

build:
	$(CARGO) build --locked

guests:
	@scripts/build-guests

## Format, lints, dependencies.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	scripts/check-dependencies
	python3 -B -m unittest discover -q -s tests/bench/peers -t tests/bench/peers

## How fast this machine is, with optimised code. BENCH_FLAGS says what to measure: see docs/benchmarking.md.
bench: setup
	$(CARGO) run --release --locked -p stokehold -- bench $(BENCH_FLAGS)

## Every promise about speed against its bar; 20 minutes or so.
bench-all: setup
	$(CARGO) run --release --locked -p stokehold -- bench --all $(BENCH_FLAGS)

## The same in small and not optimised, to see that the measurements work.
bench-quick: setup build
	$(BIN) bench --all --quick $(BENCH_FLAGS)

## Beside other queues on the same PostgreSQL: table, JSON and plot. PEERS_FLAGS=--quick to try.
bench-peers: setup
	$(if $(STOKEHOLD_BIN),,$(CARGO) build --release --locked -p stokehold)
	@scripts/build-guests order-total
	tests/bench/peers/setup
	python3 -B tests/bench/peers/bench.py $(PEERS_FLAGS)

## Renews the query metadata after a change of SQL or schema.
sqlx: setup
	scripts/prepare-queries

clean:
	$(CARGO) clean
