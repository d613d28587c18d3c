//! Generates code and data from the OpenAPI files below `openapi/`: load, lint, lower, emit.
//!
//! The server compiles the routes, because they name its access types. Its build script gets their path from
//! the metadata of this one, so that the generator runs once.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Folder of the OpenAPI files.
const FOLDER: &str = "../../openapi";
/// Sources in this folder. The program writes the published documents (`dist`), so they are not among them.
const SOURCES: [&str; 9] = [
    "arazzo.yaml",
    "guides",
    "history",
    "openapi.yaml",
    "paths",
    "samples.yaml",
    "schemas",
    "shared",
    "webhooks",
];
/// Folder of the style sheet and the script of the documentation portal.
const ASSETS: &str = "../../assets/portal";

fn main() -> ExitCode {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={FOLDER}/{source}");
    }
    println!("cargo::rerun-if-changed={ASSETS}");
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(report) => {
            // Cargo shows the standard error of a failed build script.
            let _ = writeln!(std::io::stderr(), "{report}");
            ExitCode::FAILURE
        }
    }
}

fn generate() -> Result<(), String> {
    let out = std::env::var("OUT_DIR").map_err(|error| error.to_string())?;
    let out = Path::new(&out);
    let generated = generator::compile(Path::new(FOLDER), Path::new(ASSETS))?;
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(out.join(name), bytes).map_err(|error| error.to_string());
    write("types.rs", generated.types.as_bytes())?;
    write("table.json", generated.table.as_bytes())?;
    write("routes.rs", generated.routes.as_bytes())?;
    let packed = generator::pack::pack(generated.published())?;
    write("published.bin", &packed.blob)?;
    write("published.rs", packed.table.as_bytes())?;
    println!("cargo::metadata=routes={}", out.join("routes.rs").display());
    Ok(())
}
