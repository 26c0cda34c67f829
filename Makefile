# The one runner. Every command works on a fresh machine: `setup` installs what is missing.
#   make build ENGINES=all: the binary with rocksdb, sqlite and object too, or some of them (ENGINES=sqlite,object)
#   make doors: tests of etcd and of python-etcd3 against the etcd door; minutes, and Go
#   make s3: S3 clients and the suites of minio-go and minio-py against the S3 gateway; minutes, and Go
#   make object: engine object (SlateDB takes minutes to compile, so it is not in `make test`)
#   make figures: docs/figures.md's table as target/figures/DATE-COMMIT.md; an hour of a quiet machine
#   make engine-figures: every figure of docs/engines; an hour of a quiet machine (QUICK=1: minutes)
#   make package: the Debian package, its hash and what is in it (target/package)
#   make run | test | check | bench | sim SEEDS=n [FROM=n|new] | mutants | fuzz | real | mixed | soak HOURS=n [SEED=n]
#   make sim SEED=n [LAYER=lane] | SCENARIO=file [TRACE=1 [NODE=n] [CLUSTER=name] [FROM=ms] [TO=ms]] [MUTANT=Name]
SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(CURDIR)/target
export CARGO_TERM_COLOR ?= auto
# Where `setup` installs cargo when there is none.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
HIVE := $(CARGO_TARGET_DIR)/release/hive
SEEDS ?= 6000
# The first of them (1 where nothing is said; `new`: worlds that nobody has seen). Of a trace: its first millisecond.
FROM ?=
# Seeds a planted bug may live through before the hunt fails; MUTANT=Name hunts one, or is planted in one seed of `make sim`.
MUTANT_SEEDS ?= 400
MUTANT ?=
# Engines that the binary has beside the usual ones (scripts/build.sh).
ENGINES ?=
# Hours of faults at random.
HOURS ?= 1

.PHONY: run build package test check doors bench figures engine-figures sim mutants fuzz real mixed soak object s3 setup clean

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh "$(ENGINES)"

run: build
	@exec $(HIVE) dev

package: setup
	@scripts/package.sh

test: setup
	@scripts/test.sh

check: setup
	@scripts/check.sh

doors: build
	@HIVE=$(HIVE) scripts/doors.sh

bench: build
	@$(HIVE) bench all --out target/bench

figures: build
	@HIVE=$(HIVE) scripts/figures.sh

engine-figures: setup
	@scripts/engine-figures.sh

sim: setup
	@TRACE="$(TRACE)" NODE="$(NODE)" CLUSTER="$(CLUSTER)" TO="$(TO)" SCENARIO="$(SCENARIO)" MUTANT="$(MUTANT)" \
	  scripts/sim.sh "$(SEED)" "$(SEEDS)" "$(FROM)" "$(LAYER)"

mutants: setup
	@scripts/mutants.sh "$(MUTANT_SEEDS)" "$(MUTANT)"

fuzz: setup
	@scripts/fuzz.sh

s3: build
	@HIVE=$(HIVE) scripts/s3-clients.sh
	@HIVE=$(HIVE) scripts/s3-suites.sh

object: setup
	@scripts/object.sh

real: build
	@scripts/real.sh

# The last release and this source in one world: builds both, minutes.
mixed: setup
	@scripts/mixed-version.sh

soak: build
	@scripts/soak.sh "$(HOURS)" "$(SEED)"

clean:
	@cargo clean
