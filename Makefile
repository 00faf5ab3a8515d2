# corral: `make run` and `make test` are all a newcomer needs.
.PHONY: run test lint bench mutants docs picture rust
.DEFAULT_GOAL := run

# Says in one line what mends a missing or old compiler.
rust:
	@.ci/rust

# The helper for libvirt is built where its headers are; corral itself never needs them.
FEATURES := $(shell pkg-config --exists libvirt 2>/dev/null && echo --features libvirt)

# Opens the full-screen view, optimised.
run: rust
	@cargo build --release --quiet $(FEATURES)
	@exec ./target/release/corral

# Runs everything that this machine can run. CI=1 installs what is missing first.
test: rust
	@.ci/test

lint: rust
	cargo fmt --all --check
	cargo clippy --all-targets --quiet $(FEATURES) -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny check licenses bans sources; \
	else echo "not checked: licences, bans, sources (cargo install cargo-deny)"; fi

# Measures the budgets and writes docs/performance.md.
bench: rust
	@cargo build --release --quiet
	@cargo bench --quiet --bench views -- --output-format bencher >target/views.txt
	@benches/measure ./target/release/corral docs/performance.md target/views.txt

# Every one-line mutation of tests/requirements.toml must turn its test red.
mutants: rust
	@cargo test --quiet --test requirements -- --ignored --nocapture mutations

# Writes the generated pages again: commands, support, JSON Schema.
docs: rust
	@CORRAL_WRITE_DOCS=1 cargo test --quiet --test docs

# Draws the pictures of README.md from the real program.
picture: rust
	@cargo build --release --quiet
	@docs/picture ./target/release/corral
