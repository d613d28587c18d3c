//! Turns the authored contract below `openapi/` into Rust: load, lint, lower, emit.

#[path = "build/mod.rs"]
mod contract;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=openapi");
    println!("cargo::rerun-if-changed=build");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            eprintln!("{report}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    let out = std::env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let out = Path::new(&out);
    let generated = contract::compile(Path::new("openapi"))?;
    let write = |name: &str, text: &str| std::fs::write(out.join(name), text).map_err(|error| error.to_string());
    write("openapi.json", &generated.json)?;
    write("openapi.yaml", &generated.yaml)?;
    write("contract.rs", &generated.rust)
}
