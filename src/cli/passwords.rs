//! Passwords that an operator enters. They are never command-line arguments, which other users of the machine can see.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Args;
use domain::secrets::Token;
use tokio::sync::oneshot;

use super::context::stop_signal;

/// Maximum number of bytes that are read for a password; longer lines are refused.
const MAX_LINE: u64 = 4096;

/// Source of a new password.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct PasswordOptions {
    /// Ask for the password on the terminal [default: a generated password, which is printed]
    #[arg(long)]
    prompt: bool,
    /// Read the password from the first line of standard input
    #[arg(long)]
    password_stdin: bool,
    /// Read the password from the first line of a file
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// A new password.
pub(super) struct NewPassword {
    /// The password.
    pub(super) password: String,
    /// Whether it was generated, so that it must be printed.
    pub(super) is_generated: bool,
}

impl PasswordOptions {
    /// Reads or generates the password.
    pub(super) async fn read(self) -> Result<NewPassword, Box<dyn Error>> {
        let password = if self.prompt {
            Some(prompt().await?)
        } else if self.password_stdin {
            Some(first_line(std::io::stdin().lock(), "standard input")?)
        } else if let Some(path) = self.password_file {
            let name = path.display().to_string();
            let file = File::open(&path).map_err(|error| format!("{name}: {error}"))?;
            Some(first_line(file, &name)?)
        } else {
            None
        };
        Ok(NewPassword {
            is_generated: password.is_none(),
            password: password.unwrap_or_else(|| Token::generate("").expose().to_owned()),
        })
    }
}

/// Returns the first line of an input without its end.
fn first_line(input: impl Read, name: &str) -> Result<String, Box<dyn Error>> {
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(MAX_LINE));
    input.read_until(b'\n', &mut line)?;
    let is_complete = line.len() < usize::try_from(MAX_LINE)?;
    let text = String::from_utf8(line).map_err(|_| format!("the first line of {name} is not UTF-8"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    match text {
        "" => Err(format!("the first line of {name} is empty, but must be the password").into()),
        _ if !is_complete => Err(format!("the first line of {name} is too long for a password").into()),
        _ => Ok(text.to_owned()),
    }
}

/// Asks twice for a password on the terminal, without displaying it.
async fn prompt() -> Result<String, Box<dyn Error>> {
    if !std::io::stdin().is_terminal() {
        return Err("standard input is not a terminal; use --password-stdin or --password-file".into());
    }
    let stopped = stop_signal()?;
    let _hidden = HiddenInput::start()?;
    let entered = async {
        let password = ask("New password: ").await?;
        match ask("Repeat the password: ").await? == password {
            true => Ok(password),
            false => Err("the passwords differ; nothing was changed".into()),
        }
    };
    tokio::select! {
        entered = entered => entered,
        () = stopped => Err("interrupted; nothing was changed".into()),
    }
}

/// Prints a question to standard error and returns the next line. A thread of its own reads the line: the process can
/// end while it waits.
async fn ask(question: &str) -> Result<String, Box<dyn Error>> {
    let mut terminal = std::io::stderr();
    write!(terminal, "{question}")?;
    terminal.flush()?;
    let (send, line) = oneshot::channel();
    std::thread::spawn(move || {
        let line = first_line(std::io::stdin().lock(), "the terminal").map_err(|error| error.to_string());
        let _ = send.send(line);
    });
    let line = line.await??;
    // The end of the line was not displayed either.
    writeln!(terminal)?;
    Ok(line)
}

/// A terminal that does not display input, until it is dropped.
struct HiddenInput;

impl HiddenInput {
    fn start() -> Result<Self, Box<dyn Error>> {
        match stty("-echo") {
            true => Ok(Self),
            false => Err(
                "stty cannot hide the input of the terminal; use --password-stdin or --password-file".into(),
            ),
        }
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        stty("echo");
    }
}

/// Changes the terminal of standard input; returns whether this succeeded.
fn stty(setting: &str) -> bool {
    let mut command = Command::new("stty");
    command.arg(setting).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Result<String, String> {
        first_line(input, "the input").map_err(|error| error.to_string())
    }

    #[test]
    fn password_is_the_first_line() {
        assert_eq!(read(b"correct horse\r\nsecond\n").as_deref(), Ok("correct horse"));
        assert_eq!(read(b" with spaces ").as_deref(), Ok(" with spaces "));
    }

    #[test]
    fn unusable_lines_are_refused() {
        for (input, reason) in [
            (&b""[..], "is empty"),
            (b"\nsecond", "is empty"),
            (b"\xff\xfe\n", "is not UTF-8"),
            (&[b'x'; 5000], "is too long"),
        ] {
            assert!(read(input).is_err_and(|error| error.contains(reason)), "{reason}");
        }
    }
}
