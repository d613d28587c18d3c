# What developers run. `just` alone lists it.
default:
    @just --list

# Type-check everything
check:
    cargo check --workspace --all-targets

# All tests; PostgreSQL too when HOLDFAST_TEST_DATABASE_URL is set
test *arguments:
    cargo nextest run --workspace {{ arguments }}

# Format, lint, licences
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo deny --all-features check bans licenses sources

# Regenerate the published document from openapi/
openapi:
    cargo run --quiet -- openapi --format json > target/openapi.json.new
    mv target/openapi.json.new openapi/dist/openapi.json

# Clients, SDK generators and the docs page in a browser, against a server of their own
clients:
    tests/clients/run

# Ratios to git and to the server's own liveness, side by side in one run
bench *arguments:
    benches/run {{ arguments }}
