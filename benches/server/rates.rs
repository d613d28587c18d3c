//! Requests per second of each read endpoint, compared with the server's own `/-/liveness`.
//!
//! The two take turns, so that other load on the machine affects both.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Result;
use crate::history::PAGE;
use crate::http::{Connection, Request, component};
use crate::instance::{PROJECT, TOKEN};
use crate::report::{Measurement, Report, Target, median};

/// Numbers of concurrent connections.
const CONNECTIONS: [usize; 3] = [1, 8, 32];
/// The number of connections for targets.
const TARGETED: usize = 32;
/// Number and duration of turns.
pub const ROUNDS: usize = 5;
pub const TURN: Duration = Duration::from_millis(150);

/// Measures all endpoints and adds them to the report.
pub async fn measure(address: SocketAddr, report: &mut Report) -> Result<()> {
    report.part("Requests per second, warm", "endpoint", "liveness")?;
    let liveness = Request::new("GET", "/-/liveness", None);
    for connections in CONNECTIONS {
        for (name, request, target) in endpoints() {
            let mut open = Vec::new();
            for _ in 0..connections {
                let mut connection = Connection::open(address).await?;
                connection.succeed(&request).await?;
                open.push(connection);
            }
            let (mut rates, mut reference) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                reference.push(rate(&mut open, &liveness).await?);
                rates.push(rate(&mut open, &request).await?);
            }
            let (rate, reference) = (median(&mut rates), median(&mut reference));
            let held = if connections == TARGETED {
                target
            } else {
                Target::None
            };
            report.add(&Measurement {
                measure: name.to_owned(),
                connections,
                server: format!("{rate:.0}"),
                reference: format!("{reference:.0}"),
                figure: rate / reference,
                target: held,
            })?;
        }
    }
    Ok(())
}

/// Returns the endpoints, and the ratio to the liveness rate that each must reach.
fn endpoints() -> Vec<(&'static str, Request, Target)> {
    let project = format!("/api/v4/projects/{PROJECT}");
    let file = format!("{project}/repository/files/{}", component(PAGE));
    let get = |path: String| Request::new("GET", &path, Some(TOKEN));
    let anonymous = |path: String| Request::new("GET", &path, None);
    let raw = Target::AtLeast(0.5);
    vec![
        ("raw file of 4 KB", get(format!("{file}/raw?ref=main")), raw),
        (
            "raw file of 4 KB, without a token",
            anonymous(format!("{file}/raw?ref=main")),
            raw,
        ),
        (
            "file as JSON",
            get(format!("{file}?ref=main")),
            Target::AtLeast(0.3),
        ),
        (
            "commit list",
            get(format!("{project}/repository/commits")),
            Target::AtLeast(0.15),
        ),
        (
            "project list",
            get("/api/v4/projects".to_owned()),
            Target::AtLeast(0.1),
        ),
        ("project", get(project.clone()), Target::None),
        (
            "commit",
            get(format!("{project}/repository/commits/main")),
            Target::None,
        ),
        (
            "tree",
            get(format!("{project}/repository/tree?path=src")),
            Target::None,
        ),
        (
            "branch list",
            get(format!("{project}/repository/branches")),
            Target::None,
        ),
        (
            "tag list",
            get(format!("{project}/repository/tags")),
            Target::None,
        ),
        ("current user", get("/api/v4/user".to_owned()), Target::None),
        ("version", get("/api/v4/version".to_owned()), Target::None),
    ]
}

/// Returns the requests per second over all connections together.
pub async fn rate(connections: &mut [Connection], request: &Request) -> Result<f64> {
    rate_with(connections, || request.clone()).await
}

/// As [`rate`], with a new request each time.
pub async fn rate_with(connections: &mut [Connection], request: impl Fn() -> Request) -> Result<f64> {
    let request = &request;
    let started = Instant::now();
    let until = started + TURN;
    let asking = connections.iter_mut().map(|connection| async move {
        let mut answers = 0_u32;
        while Instant::now() < until {
            connection.succeed(&request()).await?;
            answers += 1;
        }
        Result::Ok(answers)
    });
    let answers = futures_util::future::try_join_all(asking).await?;
    Ok(f64::from(answers.iter().sum::<u32>()) / started.elapsed().as_secs_f64())
}
