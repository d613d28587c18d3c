//! The process of the server.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Error;

/// Time for the server to end after its input was closed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of checking whether it has ended.
const STOP_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum length of its messages in an error, in bytes.
const MAX_LOG_BYTES: u64 = 64 << 10;
/// Maximum length of its line, in bytes.
const MAX_LINE_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts the program and returns its first line.
    pub(crate) fn start(binary: &Path, arguments: &[String], timeout: Duration) -> Result<(Self, String), Error> {
        let mut command = Command::new(binary);
        command.arg("test-server").args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|cause| Error::Program {
            binary: binary.to_owned(),
            cause,
        })?;
        let (output, log) = (child.stdout.take(), child.stderr.take());
        let mut process = Self(child);
        let (lines, received) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(output) = output {
                let _ = BufReader::new(output).take(MAX_LINE_BYTES).read_line(&mut line);
            }
            let _ = lines.send(line);
        });
        // Read until the end, so that the server never waits for a full pipe.
        let log = std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(mut log) = log {
                let _ = log.by_ref().take(MAX_LOG_BYTES).read_to_end(&mut text);
                let _ = std::io::copy(&mut log, &mut std::io::sink());
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        match received.recv_timeout(timeout) {
            Ok(line) if line.ends_with('\n') => Ok((process, line)),
            Err(RecvTimeoutError::Timeout) => {
                let _ = process.0.kill();
                let text = log.join().unwrap_or_default();
                Err(Error::Start(format!("holdfast was not ready after {timeout:?}: {text}")))
            }
            Ok(_) | Err(RecvTimeoutError::Disconnected) => {
                process.end();
                let text = log.join().unwrap_or_default();
                Err(Error::Start(format!("holdfast ended: {text}")))
            }
        }
    }

    /// Closes the input, which ends the server. Kills it if it does not end in time.
    pub(crate) fn end(&mut self) {
        drop(self.0.stdin.take());
        let deadline = Instant::now() + STOP_TIMEOUT;
        while matches!(self.0.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.0.kill();
                let _ = self.0.wait();
                return;
            }
            std::thread::sleep(STOP_INTERVAL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
