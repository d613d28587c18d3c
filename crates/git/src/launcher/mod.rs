//! Hidden subcommand that starts `git`: it limits its own process, then executes the program in it.
//!
//! A limit that the server set on a child after its start would come too late, and code between fork and exec is unsafe.
//! So the server starts itself again with [`ARGUMENT`], the [`Confinement`] and a command. The process ID, the
//! standard streams and the environment stay the same (`docs/adr/0034-start-git-through-a-launcher.md`).

mod limits;
mod sandbox;
mod system_calls;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use limits::ResourceLimits;
pub use sandbox::Protection;

/// First argument of a process that is to start a program.
const ARGUMENT: &str = "launch-git";
/// Argument that prints the protection instead of starting a program.
const PROBE: &str = "--probe";
/// Argument before the command.
const COMMAND: &str = "--";
/// The executable file of the process that opens this path. It stays available when an update replaces the file, so the
/// server never starts a launcher of another version.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// Exit code of a launcher that could not start its program.
const FAILURE: u8 = 126;

/// Whether the executable of this process handles [`ARGUMENT`].
static IS_LAUNCHER: AtomicBool = AtomicBool::new(false);

/// Starts the program that the arguments of this process name, and does not return if that succeeds. Returns `None` if the
/// process was started for another purpose.
///
/// A program that runs `git` calls this first, before it parses arguments or starts threads. In a program that does not
/// call it, `git` runs without limits.
#[must_use]
pub fn run_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next().as_deref() != Some(OsStr::new(ARGUMENT)) {
        IS_LAUNCHER.store(true, Ordering::Relaxed);
        return None;
    }
    if arguments.peek().map(OsString::as_os_str) == Some(OsStr::new(PROBE)) {
        return Some(print_protection());
    }
    let error = match Confinement::parse(&mut arguments) {
        Ok(confinement) => confinement.execute(arguments),
        Err(error) => error,
    };
    let _ = writeln!(io::stderr(), "fatal: cannot start git in its sandbox: {error}");
    Some(ExitCode::from(FAILURE))
}

/// Returns how well the kernel protects the machine from programs that the launcher starts.
///
/// # Errors
/// If the launcher cannot be started.
pub fn protection() -> io::Result<Protection> {
    if !IS_LAUNCHER.load(Ordering::Relaxed) {
        return Ok(Protection::None);
    }
    let probe = Command::new(OWN_EXECUTABLE)
        .args([ARGUMENT, PROBE])
        .env_clear()
        .stdin(Stdio::null())
        .output()?;
    Protection::parse(&probe.stdout).ok_or_else(|| io::Error::other("the launcher of git cannot be started"))
}

/// Restricts this process and prints how far that succeeded.
fn print_protection() -> ExitCode {
    let confinement = Confinement::default();
    let restricted = sandbox::restrict(&confinement, Path::new(OWN_EXECUTABLE)).and_then(|protection| {
        system_calls::restrict()?;
        io::stdout().write_all(protection.name().as_bytes())
    });
    match restricted {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILURE),
    }
}

/// Limits on a program and the files it can access.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Confinement {
    /// Limits on each process.
    pub(super) limits: ResourceLimits,
    /// Directories whose programs can be executed.
    pub(super) executable: Vec<PathBuf>,
    /// Directories and files that can be read.
    pub(super) readable: Vec<PathBuf>,
    /// Directories and files that can be changed.
    pub(super) writable: Vec<PathBuf>,
}

impl Confinement {
    /// Returns a command that starts `program` in this confinement, or without one if this process is not a launcher.
    pub(super) fn command(&self, program: &Path) -> tokio::process::Command {
        if !IS_LAUNCHER.load(Ordering::Relaxed) {
            return tokio::process::Command::new(program);
        }
        let mut command = tokio::process::Command::new(OWN_EXECUTABLE);
        command.arg(ARGUMENT);
        for (name, value) in self.limits.fields() {
            command.arg(format!("{name}={value}"));
        }
        for (name, paths) in [
            ("executable", &self.executable),
            ("readable", &self.readable),
            ("writable", &self.writable),
        ] {
            for path in paths {
                let mut argument = OsString::from(name);
                argument.push("=");
                argument.push(path);
                command.arg(argument);
            }
        }
        command.arg(COMMAND).arg(program);
        command
    }

    /// Parses the arguments up to the command.
    fn parse(arguments: &mut impl Iterator<Item = OsString>) -> io::Result<Self> {
        let malformed = || io::Error::other("malformed arguments");
        let mut parsed = Self::default();
        for argument in arguments {
            if argument == COMMAND {
                return Ok(parsed);
            }
            let bytes = argument.as_bytes();
            let separator = bytes
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(malformed)?;
            let name = bytes.get(..separator).unwrap_or_default();
            let value = bytes.get(separator + 1..).unwrap_or_default();
            let path = || PathBuf::from(OsString::from_vec(value.to_vec()));
            match name {
                b"executable" => parsed.executable.push(path()),
                b"readable" => parsed.readable.push(path()),
                b"writable" => parsed.writable.push(path()),
                name => {
                    let number = std::str::from_utf8(value)
                        .ok()
                        .and_then(|value| value.parse().ok());
                    let set = number.and_then(|number| parsed.limits.set(name, number));
                    set.ok_or_else(malformed)?;
                }
            }
        }
        Err(malformed())
    }

    /// Restricts this process and executes a command in it. Returns only if that fails.
    fn execute(&self, mut command: impl Iterator<Item = OsString>) -> io::Error {
        let Some(program) = command.next() else {
            return io::Error::other("no command");
        };
        let restricted = sandbox::restrict(self, Path::new(&program))
            .and_then(|_| system_calls::restrict())
            // Last, because this process may use more memory than the program may.
            .and_then(|()| self.limits.apply());
        match restricted {
            Ok(()) => Command::new(program).args(command).exec(),
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confinement_survives_its_arguments() {
        let confinement = Confinement {
            limits: ResourceLimits {
                memory_bytes: Some(1 << 20),
                file_bytes: Some(0),
                ..ResourceLimits::default()
            },
            executable: vec!["/usr/bin".into()],
            readable: vec![],
            writable: vec![
                "/a=b c".into(),
                OsString::from_vec(vec![b'/', 0xff, b'\n']).into(),
            ],
        };
        IS_LAUNCHER.store(true, Ordering::Relaxed);
        let command = confinement.command(Path::new("/bin/git"));
        IS_LAUNCHER.store(false, Ordering::Relaxed);
        let mut arguments = command.as_std().get_args().map(OsStr::to_owned).skip(1);
        assert_eq!(Confinement::parse(&mut arguments).unwrap(), confinement);
        assert_eq!(arguments.collect::<Vec<_>>(), ["/bin/git"]);
    }

    #[test]
    fn malformed_arguments_are_rejected() {
        for arguments in [
            &[][..],
            &["readable=/"],
            &["memory=1"],
            &["memory=x", "--"],
            &["x=1", "--"],
            &["memory", "--"],
        ] {
            let mut arguments = arguments.iter().map(OsString::from);
            assert!(Confinement::parse(&mut arguments).is_err());
        }
    }
}
