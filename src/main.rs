//! The Holdfast binary.

mod cli;

/// Keeps the memory of the process close to the memory in use (ADR 51). It also serves libgit2 and SQLite.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if let Some(code) = git::launcher::run_if_requested() {
        return code;
    }
    cli::run()
}
