//! `holdfast demo`: a temporary instance with sample data.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};

use clap::Args;
use domain::kernel::Backend;
use domain::secrets::{Secret, Token};
use domain::spaces::repository_import;
use holdfast::config::ConfigOptions;
use holdfast::server::{self, demo};
use storage::entities::Visibility;
use tokio::process::{Child, Command};

use super::context::{CommandResult, error_text, print, stop_signal};
use super::log;

/// Options of a demo. It reads no settings file, so that it never fills an existing database.
#[derive(Debug, Args)]
pub(super) struct DemoOptions {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "HOLDFAST_LISTEN")]
    listen: Option<SocketAddr>,
    /// Local repository to add as a project
    #[arg(long)]
    repository: Option<PathBuf>,
    /// Repeat X-Service-* headers under the names that clients of the reference service expect, and report its version
    #[arg(long, env = "HOLDFAST_COMPAT", num_args = 0..=1, default_missing_value = "true")]
    compat: Option<bool>,
    /// Token of the administrator [default: generated and printed]
    #[arg(long, env = "HOLDFAST_ROOT_TOKEN", hide_env_values = true)]
    root_token: Option<String>,
    /// Log filter, in the syntax of RUST_LOG [default: warn]
    #[arg(long, env = "HOLDFAST_LOG")]
    log: Option<String>,
}

/// Fills an instance in a temporary directory and serves it until it is stopped.
pub(super) async fn run(arguments: DemoOptions) -> CommandResult {
    let data = DemoDirectory::new()?;
    let password = Token::generate("").expose().to_owned();
    let token = arguments.root_token.filter(|token| !token.is_empty());
    let token = token.unwrap_or_else(|| Token::generate("").expose().to_owned());
    let options = ConfigOptions {
        listen: arguments.listen,
        data_dir: Some(data.directory.clone()),
        compat: arguments.compat,
        log: arguments.log,
        root_token: Some(token.clone()),
        root_password: Some(password.clone()),
        ..ConfigOptions::default()
    };
    log::initialize(&options, "warn")?;
    let stopped = stop_signal()?;
    let bound = server::bind(options.settings()?, server::given_credentials(&options), None).await?;
    bound
        .fill(&Secret::new(token.clone()), &Secret::new(password.clone()))
        .await?;
    if let Some(path) = arguments.repository {
        import(&bound.backend, path).await?;
    }
    let base = &bound.backend.instance.base_url;
    print(&format!(
        "Holdfast {} serves a demo; its data is deleted when it stops\n\
         Token of root: {token}\nUsers: root, {}; password of each: {password}\nStart with: {base}/api/v4/projects/{}\n\
         API: {base}/api/v4\nDocs: {base}/docs\nGit: {base}/{}.git\nHealth: {base}/-/health\n",
        env!("CARGO_PKG_VERSION"),
        demo::USERS.join(", "),
        demo::PROJECT.replace('/', "%2F"),
        demo::PROJECT,
    ));
    bound.serve(stopped).await?;
    data.remove().await?;
    Ok(ExitCode::SUCCESS)
}

/// Imports a repository as a project named after its directory.
async fn import(backend: &Backend, path: PathBuf) -> Result<(), String> {
    let absolute = path
        .canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let name = absolute
        .file_name()
        .map(Path::new)
        .and_then(Path::to_str)
        .unwrap_or_default();
    let (group, _) = demo::PROJECT.split_once('/').unwrap_or((demo::PROJECT, ""));
    let project = format!("{group}/{}", name.strip_suffix(".git").unwrap_or(name));
    let imported = repository_import::import(
        backend,
        &project,
        Visibility::Public,
        absolute,
        Some(demo::USERS[0]),
    );
    imported.await.map(|_| ()).map_err(error_text)
}

/// Waits until the parent closes the pipe, for any reason, and then removes the directory. It tries twice,
/// because a git program may still be writing.
const WATCH: &str = r#"trap '' HUP INT TERM; read -r _; rm -rf -- "$1" || rm -rf -- "$1""#;

/// The directory of the demo, and a process that removes it when this process ends, even if it is killed.
struct DemoDirectory {
    directory: PathBuf,
    watcher: Child,
}

impl DemoDirectory {
    fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("holdfast-demo-").tempdir()?;
        let watcher = Command::new("sh")
            .args(["-c", WATCH, "sh"])
            .arg(directory.path())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal interrupts this process group; the watcher must survive.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            directory: directory.keep(),
            watcher,
        })
    }

    /// Waits until the watcher has removed the directory.
    async fn remove(mut self) -> std::io::Result<()> {
        drop(self.watcher.stdin.take());
        self.watcher.wait().await?;
        match self.directory.exists() {
            true => Err(std::io::Error::other(format!(
                "{} could not be removed",
                self.directory.display()
            ))),
            false => Ok(()),
        }
    }
}
