# Tasks of a developer: `just` lists them. Each is one command that also works when typed by hand.

# list the tasks
default:
    @just --list

# tests that finish within a minute
fast *args:
    python -m pytest -m "not slow" {{args}}

# the whole suite
tests *args:
    python -m pytest {{args}}

# style, types and import contracts
lint:
    ruff check .
    ruff format --check .
    mypy
    lint-imports

# the commands, output and examples of README and docs
docs:
    python -m pytest tests/test_docs.py tests/test_guides.py tests/test_tutorial.py

# the documentation as a site, at http://127.0.0.1:8000
site:
    mkdocs serve

# lint a generated capture of one million packets against tshark, and record the figures
bench capture="/tmp/ibdissect-million.pcap":
    test -e {{capture}} || python benchmarks/generate.py 1000000 {{capture}}
    python benchmarks/lint.py {{capture}} --record

# everything that CI does
ci:
    .ci/run
