//! Settings of the allocator of glibc (ADR 32).

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Variable with the settings. glibc reads it only when a program starts.
const VARIABLE: &str = "GLIBC_TUNABLES";

/// Allocations of a mebibyte and more are returned to the system as soon as they are freed. By default, glibc raises this
/// limit to 32 MiB after the first large allocation was freed, and keeps up to 64 MiB of free memory for each of its arenas.
const SETTINGS: &str = "glibc.malloc.mmap_threshold=1048576:glibc.malloc.trim_threshold=4194304";

/// Executes the program again with the settings, unless the environment has the variable already. Returns if the program
/// cannot be executed; it then runs with the default settings.
pub fn apply_settings() {
    if !cfg!(target_env = "gnu") || std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    if let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) {
        let _failure = Command::new(program)
            .arg0(name)
            .args(arguments)
            .env(VARIABLE, SETTINGS)
            .exec();
    }
}
