//! Read operations compared with the `git` program on the same repository, which has a commit-graph with
//! changed paths.
//!
//! Each query is sent once, with different commits and paths, so that no result is cached. The two take turns.
//! Each request is sent over HTTP with a token; `git` starts a new process each time.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::Result;
use crate::git::Repository;
use crate::http::{Connection, Request, component};
use crate::instance::{PROJECT, TOKEN};
use crate::random::Random;
use crate::report::{Measurement, Report};

/// Number of queries of each kind; an additional one runs first to open files.
const SAMPLES: usize = 30;

/// A commit, one of its files, and the ID of its content.
struct FileSample {
    tip: String,
    path: String,
    blob: String,
}

/// A kind of query.
struct Operation {
    name: &'static str,
    most: f64,
    request: fn(&FileSample) -> (&'static str, String),
    git: fn(&FileSample) -> Vec<String>,
}

const OPERATIONS: [Operation; 7] = [
    Operation {
        name: "blob",
        most: 1.0,
        request: |sample| ("GET", format!("blobs/{}/raw", sample.blob)),
        git: |sample| words(&["cat-file", "blob", &sample.blob]),
    },
    Operation {
        name: "last commit of a path",
        most: 1.0,
        request: |sample| {
            let path = component(&sample.path);
            ("HEAD", format!("files/{path}?ref={}", sample.tip))
        },
        git: |sample| words(&["log", "-1", "--format=%H", &sample.tip, "--", &sample.path]),
    },
    Operation {
        name: "commit list, page 1",
        most: 1.0,
        request: |sample| ("GET", format!("commits?ref_name={}", sample.tip)),
        git: |sample| words(&["log", "-20", "--format=fuller", &sample.tip]),
    },
    Operation {
        name: "commit list, page 1,000",
        most: 1.0,
        request: |sample| ("GET", format!("commits?ref_name={}&page=1000", sample.tip)),
        git: |sample| words(&["log", "--skip=19980", "-20", "--format=fuller", &sample.tip]),
    },
    Operation {
        name: "commit list of a path",
        most: 1.0,
        request: |sample| {
            let path = component(&sample.path);
            ("GET", format!("commits?ref_name={}&path={path}", sample.tip))
        },
        git: |sample| words(&["log", "-20", "--format=fuller", &sample.tip, "--", &sample.path]),
    },
    Operation {
        name: "diff of a commit",
        most: 1.0,
        request: |sample| ("GET", format!("commits/{}/diff", sample.tip)),
        git: |sample| words(&["diff-tree", "-p", "-M", "--root", &sample.tip]),
    },
    Operation {
        name: "blame",
        most: 1.1,
        request: |sample| {
            let path = component(&sample.path);
            ("GET", format!("files/{path}/blame?ref={}", sample.tip))
        },
        git: |sample| words(&["blame", "--porcelain", &sample.tip, "--", &sample.path]),
    },
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Measures all operations and adds them to the report.
pub async fn measure(address: SocketAddr, repository: &Repository, report: &mut Report) -> Result<()> {
    report.part("Reading, each query once", "server", "git")?;
    let mut connection = Connection::open(address).await?;
    let commits = repository.lines(&["rev-list", "--first-parent", "-n", "3000", "main"])?;
    let mut random = Random::new(7);
    let mut requested = BTreeSet::new();
    for (index, operation) in OPERATIONS.iter().enumerate() {
        // Every operation has separate commits, all of them new enough to have a page 1,000.
        let mut tips = commits.iter().skip(index).step_by(3 * OPERATIONS.len());
        let (mut server, mut git) = (Vec::new(), Vec::new());
        while server.len() <= SAMPLES {
            let tip = tips.next().ok_or("the history is too short")?;
            let sample = sample(repository, tip, &mut random)?;
            if !requested.insert(sample.blob.clone()) {
                continue;
            }
            let (method, path) = (operation.request)(&sample);
            let path = format!("/api/v4/projects/{PROJECT}/repository/{path}");
            let request = Request::new(method, &path, Some(TOKEN));
            let arguments = (operation.git)(&sample);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            server.push(connection.succeed(&request).await?);
            if method == "GET" && connection.body().len() < 3 {
                return Err(format!("the answer to {path} is empty").into());
            }
            git.push(repository.time(&arguments)?);
        }
        let after_first = |times: &[Duration]| times.iter().skip(1).copied().collect::<Vec<_>>();
        report.add(&Measurement::times(
            operation.name,
            &mut after_first(&server),
            &mut after_first(&git),
            operation.most,
        ))?;
    }
    Ok(())
}

/// Returns a random file of a commit.
fn sample(repository: &Repository, tip: &str, random: &mut Random) -> Result<FileSample> {
    let files = repository.lines(&["ls-tree", "-r", tip])?;
    let file = files
        .get(random.below(files.len()))
        .ok_or("the commit has no files")?;
    let (head, path) = file.split_once('\t').ok_or("git ls-tree is not understood")?;
    let blob = head.rsplit(' ').next().unwrap_or_default();
    Ok(FileSample {
        tip: tip.to_owned(),
        path: path.to_owned(),
        blob: blob.to_owned(),
    })
}
