//! Passes the generated routes and the Git revision to the compiler. The build script of the package `contract`
//! generates the routes.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DEP_HOLDFAST_CONTRACT_ROUTES");
    let routes = std::env::var("DEP_HOLDFAST_CONTRACT_ROUTES").unwrap_or_default();
    println!("cargo::rustc-env=HOLDFAST_ROUTES={routes}");
    println!("cargo::rustc-env=HOLDFAST_REVISION={}", revision());
    // The executable starts itself again for each `git`. Without optimization, it has half a million relocations, which take
    // half of the time of a start.
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "debug") && cfg!(target_os = "linux") {
        println!("cargo::rustc-link-arg=-no-pie");
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
