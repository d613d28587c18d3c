//! Generates code and data from the OpenAPI files below `openapi/`: load, lint, lower, emit.
//!
//! The server compiles the routes, because they name its access types. Its build script gets their path from
//! the metadata of this one, so that the generator runs once.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Folder of the OpenAPI files.
const FOLDER: &str = "../../openapi";

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed={FOLDER}");
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
    let generated = generator::compile(Path::new(FOLDER))?;
    let write =
        |name: &str, text: &str| std::fs::write(out.join(name), text).map_err(|error| error.to_string());
    for document in &generated.documents {
        write(&document.file, &document.text)?;
    }
    write("types.rs", &generated.types)?;
    write("table.json", &generated.table)?;
    write("routes.rs", &generated.routes)?;
    println!("cargo::metadata=routes={}", out.join("routes.rs").display());
    Ok(())
}
