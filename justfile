# Commands for developers. `just` without arguments lists them.
default:
    @just --list

# Type-check everything
check:
    cargo check --workspace --all-targets

# Run all tests, also on PostgreSQL if it is installed
test *arguments:
    cargo test --workspace {{ arguments }}

# Check format, lints and licenses
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    .ci/dependencies --if-changed

# Check the licenses and sources of all dependencies, and record the result for .ci/run
licenses:
    .ci/dependencies

# Check all dependencies against the advisory database of RustSec, which is downloaded
advisories:
    cargo deny --all-features check advisories

# Write the SBOM of the server (CycloneDX) to target/sbom and check that it is complete
sbom:
    .ci/sbom

# Regenerate the published documents from openapi/
openapi:
    cargo build --quiet --workspace --all-targets
    target/debug/holdfast openapi > target/openapi.json.new
    target/debug/holdfast openapi --openapi-version 3.1 > target/openapi-3.1.json.new
    mv target/openapi.json.new openapi/dist/openapi.json
    mv target/openapi-3.1.json.new openapi/dist/openapi-3.1.json

# Build the packages of a release in target/packages; requires the tools that docs/PACKAGING.md lists
package *kinds:
    cargo build --locked --profile dist --bin holdfast
    packaging/build target/dist/holdfast target/packages {{ kinds }}

# Record the facts about the current document as a version, such as `just history 1.0.0`, for the page of changes
history version:
    target/debug/holdfast openapi --format facts | gzip -9n > openapi/history/{{ version }}.txt.gz

# Run a fuzz target, such as `just fuzz json_body -max_total_time=180`; requires cargo-fuzz
fuzz target *arguments:
    RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz {{ target }} -- {{ arguments }}

# Test clients, SDK generators and the documentation in a browser with a separate server
clients *arguments:
    tests/clients/run {{ arguments }}

# Compare the server with git and with its own liveness endpoint; `just bench postgres` compares the databases
bench *arguments:
    benches/run {{ arguments }}

# Count the instructions of each request with valgrind; `just instructions release update` updates the table
instructions profile="debug" *arguments:
    cargo {{ if profile == "release" { "bench" } else { "test" } }} --workspace --bench instructions -- {{ arguments }}

# Measure checks after typical edits; `just timings --clean` also measures a clean build
timings *arguments:
    .ci/timings {{ arguments }}
