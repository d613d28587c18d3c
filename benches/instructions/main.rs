//! Counts the instructions of each request, and compares them with a table.
//!
//! `just instructions` runs the debug build and `just instructions release` the release build, each under callgrind, a
//! tool of valgrind. The server runs in the measured process without a socket, on one thread and SQLite, with the same
//! data in each run. `update` writes the column of the build to `counts.tsv`.

mod api;
mod callgrind;
mod calls;
mod counting;
mod data;
mod history;
mod table;
mod toolchain;

use std::io::Write;
use std::path::{Path, PathBuf};

use table::{Profile, Table};

/// Result of all functions here.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Purpose of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Compares with the table. With another toolchain than that of the table, only prints the counts.
    Compare,
    /// Compares with the table, also with another toolchain.
    Check,
    /// Writes the table.
    Update,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        // Added by Cargo.
        .filter(|argument| argument != "--bench")
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => run(Mode::Compare),
        ["check"] => run(Mode::Check),
        ["update"] => run(Mode::Update),
        [callgrind::ARGUMENT, directory, part] => counting::run(Path::new(directory), part.parse()?),
        _ => Err("the argument must be `check`, `update` or absent".into()),
    }
}

fn run(mode: Mode) -> Result<()> {
    let profile = Profile::current();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let profiles = target.join("instructions").join(profile.name());
    let instances = tempfile::tempdir_in(target)?;
    let instances: Vec<PathBuf> = (0..calls::PARTS)
        .map(|part| instances.path().join(part.to_string()))
        .collect();
    data::create(&instances)?;
    let counts = callgrind::count(&instances, &profiles)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(table::PATH);
    let mut table = Table::read(&path)?;
    let toolchain = toolchain::name()?;
    if mode == Mode::Update {
        table.update(profile, &toolchain, &counts);
        table.write(&path)?;
    }
    let changed = table.compare(profile, &counts)?;
    line(&format!("Profiles of callgrind: {}", profiles.display()))?;
    if changed == 0 {
        return Ok(());
    }
    let known = table.toolchain(profile);
    let is_known = known == toolchain;
    if !is_known {
        line(&format!(
            "The table was counted with {known}, and this build with {toolchain}."
        ))?;
    }
    match mode {
        Mode::Compare if !is_known => line("These counts are not compared."),
        _ => Err(format!(
            "{changed} counts changed by more than {} %. Find the cause with `callgrind_annotate` and one of the profiles, or \
             write the new counts to {} with `just instructions {} update`.",
            table::MAX_CHANGE_PERCENT,
            table::PATH,
            profile.name(),
        )
        .into()),
    }
}

/// Writes a line to standard output.
fn line(text: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}")?;
    Ok(output.flush()?)
}
