//! The toolchain of a build, on which its counts depend.

use std::process::Command;

use crate::Result;

/// Returns the version and the target of the compiler.
pub fn name() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    match (value("release: "), value("host: ")) {
        (Some(release), Some(host)) => Ok(format!("rustc {release} for {host}")),
        _ => Err("rustc does not print its version".into()),
    }
}
