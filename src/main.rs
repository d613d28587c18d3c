//! The Holdfast binary.

mod cli;

fn main() -> std::process::ExitCode {
    if let Some(code) = git::launcher::run_if_requested() {
        return code;
    }
    allocator::fix_thresholds();
    cli::run()
}
