# The handful of commands that everybody uses. `just` alone lists them.

_default:
    @just --list --unsorted

# Serve the current folder on 127.0.0.1:8080.
serve *arguments:
    cargo run --release -- serve {{arguments}}

# Everything CI looks at: tools, format, lints, docs, licences, architecture, tests.
test:
    cargo xtask test

# The same without the tests.
check:
    cargo xtask check

# The tests of one crate: `just t workspace`.
t crate *arguments:
    cargo test --package {{crate}} {{arguments}}

# Format the code.
fmt:
    cargo fmt --all

# Write generated files anew.
generate:
    cargo xtask generate

# Install what the tests need.
setup *names:
    cargo xtask setup {{names}}
