//! Pushes and pulls of image layers, compared with a synced copy of the file. If Debian's `docker-registry` is
//! installed, it is measured with the same client. `HOLDFAST_BENCH_LAYER_MEGABYTES` sets the size of the
//! layers.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::header::LOCATION;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::io::ReaderStream;

use crate::Result;
use crate::git;
use crate::http::{Connection, Request};
use crate::instance::TOKEN;
use crate::report::{self, Measurement, Report, Target};

/// Size of a layer in mebibytes.
const SIZE: usize = 64;
/// Number of repetitions.
const ROUNDS: usize = 7;
/// The name of the images.
const NAME: &str = "root/images/layers";
/// The registry for comparison.
const OTHER: &str = "docker-registry";
/// Time limit for its start.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Maximum ratio of the server's time to that of the other registry.
const MAX_RATIO: f64 = 1.2;

/// Measures both and adds them to the report.
pub async fn measure(address: SocketAddr, directory: &Path, report: &mut Report) -> Result<()> {
    // It fails only if a provider is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let work = directory.join("images");
    git::remove(&work)?;
    std::fs::create_dir_all(&work)?;
    let size = match std::env::var("HOLDFAST_BENCH_LAYER_MEGABYTES") {
        Ok(text) => text.parse()?,
        Err(_) => SIZE,
    };
    let mut layers = Vec::new();
    for round in 0..ROUNDS {
        layers.push(Layer::write(&work, round, size)?);
    }
    let own = Registry::own(address).await?;
    let (pushes, pulls) = own.measure(&layers).await?;
    let copies = layers
        .iter()
        .map(|layer| layer.copy(&work))
        .collect::<Result<Vec<_>>>()?;
    let reads = layers.iter().map(Layer::read).collect::<Result<Vec<_>>>()?;

    report.part("Layers of images", "server", "file")?;
    let row = |what: &str, own: &[Duration], other: &[Duration], target| {
        let name = format!("{what} of {size} MiB");
        let mut row = Measurement::times(&name, &mut own.to_vec(), &mut other.to_vec(), MAX_RATIO);
        row.target = target;
        row
    };
    report.add(&row("push", &pushes, &copies, Target::None))?;
    report.add(&row("pull", &pulls, &reads, Target::None))?;

    report.part("Layers of images", "server", "registry")?;
    match Other::start(&work).await? {
        None => report::line(&format!("{OTHER} is not installed.")),
        Some(other) => {
            let (other_pushes, other_pulls) = other.registry.measure(&layers).await?;
            report.add(&row("push", &pushes, &other_pushes, Target::AtMost(MAX_RATIO)))?;
            report.add(&row("pull", &pulls, &other_pulls, Target::AtMost(MAX_RATIO)))
        }
    }
}

/// A file of random bytes.
struct Layer {
    path: PathBuf,
    length: u64,
    digest: String,
}

impl Layer {
    fn write(directory: &Path, number: usize, megabytes: usize) -> Result<Self> {
        let path = directory.join(format!("layer-{number}"));
        let (mut file, mut hash) = (File::create(&path)?, Sha256::new());
        let mut block = vec![0_u8; 1 << 20];
        for _ in 0..megabytes {
            rand::fill(&mut block[..]);
            hash.update(&block);
            file.write_all(&block)?;
        }
        file.sync_all()?;
        Ok(Self {
            path,
            length: (megabytes << 20) as u64,
            digest: format!("sha256:{}", hex::encode(hash.finalize())),
        })
    }

    /// Returns the duration of a copy, including the sync.
    fn copy(&self, directory: &Path) -> Result<Duration> {
        let target = directory.join("copy");
        let began = Instant::now();
        std::fs::copy(&self.path, &target)?;
        File::open(&target)?.sync_all()?;
        Ok(began.elapsed())
    }

    /// Returns the duration of reading it.
    fn read(&self) -> Result<Duration> {
        let began = Instant::now();
        let (mut file, mut block) = (File::open(&self.path)?, vec![0_u8; 256 << 10]);
        while file.read(&mut block)? > 0 {}
        Ok(began.elapsed())
    }
}

/// A registry and the credentials to push to it.
struct Registry {
    client: Client,
    base: String,
    token: Option<String>,
}

impl Registry {
    /// Returns the measured server, with a project for the images.
    async fn own(address: SocketAddr) -> Result<Self> {
        let project = json!({ "path": "images", "visibility": "public" });
        let made = Request::post("/api/v4/projects", TOKEN, &project);
        Connection::open(address).await?.succeed(&made).await?;
        let registry = Self::at(format!("http://{address}"))?;
        let requested = format!("service=container_registry&scope=repository:{NAME}:pull,push");
        let asked = registry
            .client
            .get(format!("{}/jwt/auth?{requested}", registry.base));
        let answer = good(asked.basic_auth("root", Some(TOKEN)).send().await?).await?;
        let answer: Value = answer.json().await?;
        let token = answer["token"].as_str().ok_or("no token")?.to_owned();
        Ok(Self {
            token: Some(token),
            ..registry
        })
    }

    fn at(base: String) -> Result<Self> {
        let client = Client::builder().no_proxy().build()?;
        Ok(Self {
            client,
            base,
            token: None,
        })
    }

    /// Returns the durations of pushing and then pulling each layer.
    async fn measure(&self, layers: &[Layer]) -> Result<(Vec<Duration>, Vec<Duration>)> {
        let (mut pushes, mut pulls) = (Vec::new(), Vec::new());
        for layer in layers {
            pushes.push(self.push(layer).await?);
        }
        for layer in layers {
            pulls.push(self.pull(layer).await?);
        }
        Ok((pushes, pulls))
    }

    async fn push(&self, layer: &Layer) -> Result<Duration> {
        let began = Instant::now();
        let begin = self
            .client
            .post(format!("{}/v2/{NAME}/blobs/uploads/", self.base));
        let begun = good(self.with_token(begin).send().await?).await?;
        let location = begun.headers().get(LOCATION).ok_or("no address to upload to")?;
        let mut upload = begun.url().join(location.to_str()?)?;
        upload.query_pairs_mut().append_pair("digest", &layer.digest);
        let file = tokio::fs::File::open(&layer.path).await?;
        let body = reqwest::Body::wrap_stream(ReaderStream::with_capacity(file, 256 << 10));
        let put = self.client.put(upload);
        let put = put
            .header("Content-Length", layer.length)
            .header("Content-Type", "application/octet-stream");
        good(self.with_token(put).body(body).send().await?).await?;
        Ok(began.elapsed())
    }

    async fn pull(&self, layer: &Layer) -> Result<Duration> {
        let began = Instant::now();
        let get = self
            .client
            .get(format!("{}/v2/{NAME}/blobs/{}", self.base, layer.digest));
        let mut answer = good(self.with_token(get).send().await?).await?;
        let mut length = 0;
        while let Some(chunk) = answer.chunk().await? {
            length += chunk.len() as u64;
        }
        match length == layer.length {
            true => Ok(began.elapsed()),
            false => Err(format!("{length} bytes came of {}", layer.length).into()),
        }
    }

    fn with_token(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }
}

/// Returns a response that must be successful.
async fn good(answer: Response) -> Result<Response> {
    match answer.status().is_success() {
        true => Ok(answer),
        false => Err(format!("{} was answered {}", answer.url(), answer.status()).into()),
    }
}

/// The other registry, which is stopped when the value is dropped.
struct Other {
    child: Child,
    registry: Registry,
}

impl Other {
    /// Starts it on a free port; returns none if it is not installed.
    async fn start(work: &Path) -> Result<Option<Self>> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let settings = json!({
            "version": "0.1",
            "log": { "level": "error", "accesslog": { "disabled": true } },
            "storage": { "filesystem": { "rootdirectory": work.join("other") } },
            "http": { "addr": address.to_string() },
        });
        let file = work.join("other.yml");
        std::fs::write(&file, settings.to_string())?;
        let mut command = Command::new(OTHER);
        command
            .arg("serve")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = match command.spawn() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            child => child?,
        };
        let registry = Registry::at(format!("http://{address}"))?;
        let (other, began) = (Self { child, registry }, Instant::now());
        while Connection::open(address).await.is_err() {
            if began.elapsed() > TIME_LIMIT {
                return Err(format!("{OTHER} does not start").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(Some(other))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
