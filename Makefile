# Everything starts here. Each target first makes the clone ready (idempotent, under a second when nothing changed).
#
#   make demo          start everything and train the sample job; Ctrl-C ends it (ONCE=1: end by itself)
#   make run           start broker, portal, control and a node; Ctrl-C ends it
#   make stop          end what runs in DLH_HOME
#   make status        what runs there, and at which address
#   make password      print a new password for the first admin
#   make token         print a token for dlh, without a browser (FOR=user NAME=name DAYS=90)
#   make service       print a unit file of systemd that runs it from boot on
#   make backup FILE=x the installation in DLH_HOME, which may be running, into one file (SECRETS=1: its key too)
#   make restore FILE=x   such a file into an empty DLH_HOME
#
#   make test          every test (ARGS="tests/codegen -k name" picks some)
#   make test-parts    of these those that start no ranks, stack or browser
#   make test-whole    of these those that do
#   make test-postgres every test that uses the database, on a PostgreSQL server of its own (ARGS as above)
#   make lint          style (Python, templates, scripts), types, import walls, Django's own checks
#   make format        what the formatters can repair themselves
#   make bench         every figure of docs/benchmarks.md, about 4 hours (make bench-start: one of them)
#   make pictures      the pictures of the README anew, from real jobs in a real browser
#   make third-party   docs/third-party.md anew, from what is installed
#   make clean         remove what set-up and tools made (.venv, node_modules ...), not DLH_HOME
#
# Settings: DLH_HOME (data, default var/), DLH_PORT (8000), DLH_HOST (127.0.0.1), REDIS_URL; docs/operator-guide.md.

PY := .venv/bin/python
# Images of containers forbid Python to keep what it compiled; each process would compile its modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Set-up puts a Node.js into .venv where the system has none that is new enough.
BIOME := PATH="$(CURDIR)/.venv/bin:$$PATH" node_modules/.bin/biome
BENCHMARKS := $(patsubst tests/benchmarks/bench_%.py,%,$(wildcard tests/benchmarks/bench_*.py))

.PHONY: help setup setup-test run demo stop status password token service backup restore test test-parts test-whole test-postgres lint format bench pictures third-party clean $(addprefix bench-,$(subst _,-,$(BENCHMARKS)))

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@./deploy/setup.sh run

setup-test:
	@./deploy/setup.sh test

run: setup
	@$(PY) -m harness.stack run

demo: setup
	@$(PY) -m harness.stack demo $(if $(filter-out 0,$(ONCE)),--once)

stop status password: setup
	@$(PY) -m harness.stack $@

# What set-up says must not stand in the unit file.
service:
	@./deploy/setup.sh run >&2
	@$(PY) -m harness.stack $@

token: setup
	@$(PY) -m harness.stack token $(if $(FOR),--user "$(FOR)") $(if $(NAME),--name "$(NAME)") $(if $(DAYS),--days "$(DAYS)")

backup: setup
	@$(PY) -m harness.backup make "$(FILE)" $(if $(filter-out 0,$(SECRETS)),--with-secrets)

restore: setup
	@$(PY) -m harness.backup restore "$(FILE)"

# Each test runs once. Those that start nothing use PostgreSQL, which is the stricter of the two databases, and what starts
# ranks, stacks or a browser uses SQLite, as `make run` does. Marked `both_databases` are those that run on either: what
# commits and locks, every address of the pages and of the API, and stacks whose jobs end in all kinds of ways.
# What starts something mostly waits for it, so three of these files run at a time on any machine; of the rest one more
# than there are cores, since they wait for disks and children for a quarter of their time.
# A test process that dies ends the run: xdist would start another, and can then wait for ever. nproc takes the number of
# threads that a program may use for that of cores.
SHARED := --dist loadfile --no-loadscope-reorder --max-worker-restart 0
TESTERS = $(shell expr $$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) + 1)
WAITING := ranks or stack or browser

test: setup-test
ifdef ARGS
	@$(PY) -m pytest $(ARGS)
else
	@status=0; $(MAKE) --no-print-directory test-parts || status=1; $(MAKE) --no-print-directory test-whole || status=1; \
	exit $$status
endif

test-parts: setup-test
	@$(PY) -m tests.postgres $(or $(ARGS),-n $(TESTERS) $(SHARED) -m "not ($(WAITING)) or both_databases")

test-whole: setup-test
	@$(PY) -m pytest $(or $(ARGS),-n 3 $(SHARED) -m "$(WAITING) or both_databases" tests/e2e tests/worker tests/harness)

test-postgres: setup-test
	@$(PY) -m tests.postgres $(or $(ARGS),-n 3 $(SHARED) tests/harness tests/e2e)

lint: setup-test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/djangofmt --check templates
	$(BIOME) check --error-on-warnings
	.venv/bin/mypy harness scheduler codegen worker
	.venv/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	DLH_PUBLIC_URL=https://harness.example.org DLH_BEHIND_PROXY=1 $(PY) -W ignore manage.py check --deploy --fail-level WARNING
	@# a test file that cannot be imported would be told only by the tests' end
	@collected=$$($(PY) -m pytest --collect-only -qq 2>&1) || { printf '%s\n' "$$collected" | grep -v '^tests/.*: [0-9]*$$'; exit 1; }

format: setup-test
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .
	.venv/bin/djangofmt templates
	$(BIOME) check --write

bench: setup-test
	@$(PY) -m tests.benchmarks $(ARGS)

$(addprefix bench-,$(subst _,-,$(BENCHMARKS))): setup-test
	@$(PY) -m tests.benchmarks.bench_$(subst -,_,$(patsubst bench-%,%,$@)) $(ARGS)

pictures: setup-test
	@$(PY) -m tests.e2e.pictures

third-party: setup-test
	@$(PY) -m harness.stack.third_party > docs/third-party.md

clean:
	rm -rf .venv node_modules harness/frontend/dist static .mypy_cache .ruff_cache .pytest_cache .hypothesis
