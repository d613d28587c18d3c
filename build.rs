//! Generates Rust code from the OpenAPI contract below `openapi/`: load, lint, lower, emit.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=openapi");
    println!("cargo::rustc-env=HOLDFAST_REVISION={}", revision());
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            // Cargo shows the standard error of a failed build script.
            let _ = writeln!(std::io::stderr(), "{report}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the Git revision of the server for `GET /version`. It is `unknown` outside a checkout and in
/// development builds, which would otherwise be rebuilt after every commit.
fn revision() -> String {
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return "unknown".to_owned();
    }
    // Cargo treats a missing file as changed; in a linked worktree these files are missing.
    for path in [".git/HEAD", ".git/refs/heads"] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let output = std::process::Command::new("git")
        .args(["rev-parse", "--short=11", "HEAD"])
        .output();
    let revision = output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| output.stdout);
    let text = revision
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .unwrap_or_default();
    if text.trim().is_empty() {
        "unknown".to_owned()
    } else {
        text.trim().to_owned()
    }
}

fn generate() -> Result<(), String> {
    let out = std::env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let out = Path::new(&out);
    let generated = generator::compile(Path::new("openapi"))?;
    let write =
        |name: &str, text: &str| std::fs::write(out.join(name), text).map_err(|error| error.to_string());
    write("openapi.json", &generated.json)?;
    write("openapi.yaml", &generated.yaml)?;
    write("contract.rs", &generated.rust)
}
