//! The measured server: the release binary as a separate process with its own data.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Result;
use crate::git::{self, Repository};
use crate::http::{Connection, Request};

/// The token of the administrator.
pub const TOKEN: &str = "measure-0123456789abcdef";
/// The project with the large history, as a component of a path.
pub const PROJECT: &str = "root%2Fhistory";
/// Numbers of other projects and of their groups.
const PROJECTS: usize = 2_000;
const GROUPS: usize = 20;
/// Time limit of each operation.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Location of a server's data.
#[derive(Clone)]
pub struct DataLocation {
    /// Path of the server's program.
    binary: PathBuf,
    directory: PathBuf,
    address: SocketAddr,
    /// Environment variables of the server.
    settings: Vec<(&'static str, String)>,
}

/// A running server, which is stopped when the value is dropped.
pub struct Server {
    child: Child,
    /// The listen address.
    pub address: SocketAddr,
    /// Time from the start until it was ready.
    pub start: Duration,
}

impl DataLocation {
    /// Creates an empty data directory and selects a free port.
    pub fn new(directory: &Path) -> Result<Self> {
        git::remove(directory)?;
        std::fs::create_dir_all(directory)?;
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let directory = directory.to_owned();
        let settings = Vec::new();
        Ok(Self {
            binary: env!("CARGO_BIN_EXE_holdfast").into(),
            directory,
            address,
            settings,
        })
    }

    /// Returns the same location with another value of an environment variable of the server.
    pub fn with_setting(&self, name: &'static str, value: &str) -> Self {
        let kept = self.settings.iter().filter(|(other, _)| *other != name);
        let settings = kept.cloned().chain([(name, value.to_owned())]).collect();
        Self {
            settings,
            ..self.clone()
        }
    }

    /// Returns the same location with another program of the server.
    pub fn with_binary(&self, binary: &Path) -> Self {
        Self {
            binary: binary.to_owned(),
            ..self.clone()
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDFAST_") {
                command.env_remove(name);
            }
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("log"))?;
        command
            .args(arguments)
            .arg("--data-dir")
            .arg(self.data())
            .env("HOLDFAST_ROOT_TOKEN", TOKEN)
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }

    /// Starts the server and waits until it is ready.
    pub async fn start(&self) -> Result<Server> {
        let mut command = self.command(&["serve", "--listen", &self.address.to_string()])?;
        let started = Instant::now();
        let child = command.spawn()?;
        let mut server = Server {
            child,
            address: self.address,
            start: Duration::ZERO,
        };
        let readiness = Request::new("GET", "/-/readiness", None);
        loop {
            if let Ok(mut connection) = Connection::open(self.address).await
                && connection.exchange(&readiness).await? == 200
            {
                server.start = started.elapsed();
                return Ok(server);
            }
            if server.child.try_wait()?.is_some() || started.elapsed() > TIME_LIMIT {
                return Err(
                    format!("the server does not start; see {}/log", self.directory.display()).into(),
                );
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Imports the history as one project into a new instance.
    pub async fn import(&self, history: &Repository) -> Result<()> {
        self.start().await?.stop()?;
        let source = history.path.to_string_lossy();
        let import = [
            "admin",
            "import-repo",
            "--project",
            "root/history",
            "--visibility",
            "public",
            &source,
        ];
        if !self.command(&import)?.status()?.success() {
            return Err(format!("the import failed; see {}/log", self.directory.display()).into());
        }
        Ok(())
    }

    /// Imports the history as one project and creates many small projects. Returns when maintenance of the
    /// history is done.
    pub async fn fill(&self, history: &Repository) -> Result<Repository> {
        self.import(history).await?;
        let server = self.start().await?;
        let groups = (0..GROUPS).map(|group| add_group(server.address, group));
        futures_util::future::try_join_all(groups).await?;
        let mut connection = Connection::open(server.address).await?;
        let id = wait_for_upkeep(&mut connection).await?;
        server.stop()?;
        // Path in the store: the hashed project ID, in two levels of directories.
        let name = hex::encode(Sha256::digest(id.to_string()));
        let (first, rest) = name.split_at(2);
        let second = rest.get(..2).unwrap_or_default();
        let path = self.data().join("repositories").join(first).join(second);
        Ok(Repository {
            path: path.join(format!("{name}.git")),
        })
    }
}

/// Creates a group with its share of the projects.
async fn add_group(address: SocketAddr, group: usize) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let body = json!({
        "name": format!("Group {group}"), "path": format!("group-{group}"), "visibility": "public",
    });
    let made = connection
        .json(&Request::post("/api/v4/groups", TOKEN, &body))
        .await?;
    for project in 0..PROJECTS / GROUPS {
        let body = json!({
            "name": format!("Project {project}"),
            "path": format!("project-{project}"),
            "namespace_id": made["id"],
            "description": "One of many",
            "visibility": "public",
            "tag_list": "many,small",
        });
        connection
            .succeed(&Request::post("/api/v4/projects", TOKEN, &body))
            .await?;
    }
    Ok(())
}

/// Waits until maintenance stores the size of the repository as its last step. Returns the ID of the project.
async fn wait_for_upkeep(connection: &mut Connection) -> Result<i64> {
    let path = format!("/api/v4/projects/{PROJECT}?statistics=true");
    let request = Request::new("GET", &path, Some(TOKEN));
    let started = Instant::now();
    while started.elapsed() < TIME_LIMIT {
        let project = connection.json(&request).await?;
        let size = project["statistics"]["repository_size"].as_i64();
        if let (Some(1..), Some(id)) = (size, project["id"].as_i64()) {
            return Ok(id);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("upkeep of the repository does not end".into())
}

impl Server {
    /// Returns the memory of the process in mebibytes.
    pub fn resident(&self) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.split_whitespace().next())
            .and_then(|number| number.parse::<f64>().ok());
        Ok(kibibytes.ok_or("the status of the process has no VmRSS")? / 1024.0)
    }

    /// Waits until the maintenance programs of earlier measurements have been gone for a while, because they
    /// would affect the next measurement.
    pub async fn come_to_rest(&self) -> Result<()> {
        const QUIET: u32 = 20;
        let began = Instant::now();
        let mut quiet = 0;
        while quiet < QUIET {
            if began.elapsed() > Duration::from_secs(120) {
                return Err("the server does not come to rest".into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            quiet = if self.has_children()? { 0 } else { quiet + 1 };
        }
        Ok(())
    }

    fn has_children(&self) -> Result<bool> {
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may end meanwhile.
            let children = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
            if !children.trim().is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Stops the server and waits until it has ended.
    pub fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id())?;
        if let Some(pid) = rustix::process::Pid::from_raw(pid) {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("the server ended with {status}").into())
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has already ended, unless an operation failed before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
