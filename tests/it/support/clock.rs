//! Servers whose clock the test sets.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command as StdCommand;

use super::process::{Process, Site};

/// Source of the library that shifts the clock of a process.
const SOURCE: &str = include_str!("clock.c");
/// Seconds of an hour.
const HOUR: i64 = 60 * 60;

/// The clock of the servers of one site. It shows the real time at first.
pub struct Clock {
    library: PathBuf,
    shift: PathBuf,
}

impl Clock {
    /// Compiles the library.
    pub fn new(site: &Site) -> Self {
        let directory = site.data.parent().expect("a parent");
        let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
        std::fs::write(&source, SOURCE).expect("a file");
        let mut compiler = StdCommand::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        assert!(compiler.status().expect("cc, which the build needs too").success());
        let shift = directory.join("clock.shift");
        std::fs::write(&shift, 0_i64.to_ne_bytes()).expect("a file");
        Self { library, shift }
    }

    /// Sets the clock to the real time plus this number of hours.
    pub fn set(&self, hours: i64) {
        // Not truncated: the servers have mapped the file.
        let file = File::options().write(true).open(&self.shift).expect("the file");
        file.write_all_at(&(hours * HOUR).to_ne_bytes(), 0).expect("a write");
    }

    /// Starts a server with this clock, which accepts webhooks on the loopback address.
    pub async fn serve(&self, site: &Site) -> Process {
        let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
        command
            .env("LD_PRELOAD", &self.library)
            .env("CLOCK_SHIFT", &self.shift)
            .env("HOLDFAST_ALLOW_LOCAL_WEBHOOKS", "true")
            .env("HOLDFAST_ROOT_PASSWORD", PASSWORD);
        Site::ready(command).await
    }
}

/// Password of the administrator.
pub const PASSWORD: &str = "password of the tests with a clock";
