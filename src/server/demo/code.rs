//! Repositories of the demo: commits by several users, on several branches, and tags.

use poem::{Endpoint, Response};
use serde_json::{Value, json};

use super::DemoApi;
use super::spaces::DemoIds;
use crate::server::error::Error;

/// A commit of the lighthouse project: author, branch, start branch, message, and files with action, path and
/// content.
type Commit = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

const README: &str =
    "# Lighthouse\n\nThe controller of the lamp and the fog horn.\n\n```sh\ncargo run -- --period 10\n```\n";

const LAMP: &str = "//! The lamp: lit for a while, dark for a while.\n\nuse std::time::Duration;\n\n\
/// Times at which the lamp is lit.\npub struct Lamp {\n    /// From one flash to the next.\n    pub period: Duration,\n    \
/// How long a flash lasts.\n    pub flash: Duration,\n}\n\nimpl Lamp {\n    \
/// Whether it is lit at a time since the start.\n    pub fn is_lit(&self, since: Duration) -> bool {\n        \
since.as_millis() % self.period.as_millis() < self.flash.as_millis()\n    }\n}\n";

const MAIN: &str = "mod lamp;\n\nuse std::time::Duration;\n\nfn main() {\n    let lamp = lamp::Lamp {\n        \
period: Duration::from_secs(10),\n        flash: Duration::from_secs(1),\n    };\n    \
println!(\"{}\", lamp.is_lit(Duration::ZERO));\n}\n";

const HORN: &str = "//! The fog horn.\n\n/// How often it sounds in a minute, depending on the visibility in meters.\n\
pub fn blasts(sight: u32) -> u32 {\n    match sight {\n        0..200 => 4,\n        200..1000 => 2,\n        \
_ => 0,\n    }\n}\n";

const GUIDE: &str = "# Operating\n\n1. Wind the clock at noon.\n2. Trim the wick; see `src/lamp.rs` for its period.\n\
3. When the far buoy is out of sight, sound the horn.\n";

const COMMITS: &[Commit] = &[
    (
        "ada",
        "main",
        None,
        "Add the lamp controller",
        &[
            ("create", "README.md", README),
            (
                "create",
                "Cargo.toml",
                "[package]\nname = \"lighthouse\"\nversion = \"0.1.0\"\nedition = \"2024\"\n",
            ),
            ("create", ".gitignore", "/target\n"),
            (
                "create",
                "src/main.rs",
                "fn main() {\n    println!(\"lit\");\n}\n",
            ),
        ],
    ),
    (
        "ben",
        "main",
        None,
        "Let the lamp flash\n\nFlash every ten seconds for one second.",
        &[("create", "src/lamp.rs", LAMP), ("update", "src/main.rs", MAIN)],
    ),
    (
        "ada",
        "main",
        None,
        "Document the operation",
        &[("create", "docs/operating.md", GUIDE)],
    ),
    (
        "cleo",
        "main",
        None,
        "Add the fog horn",
        &[("create", "src/horn.rs", HORN)],
    ),
    (
        "ben",
        "main",
        None,
        "Release 0.2.0",
        &[
            (
                "update",
                "Cargo.toml",
                "[package]\nname = \"lighthouse\"\nversion = \"0.2.0\"\nedition = \"2024\"\n",
            ),
            (
                "create",
                "CHANGELOG.md",
                "# Changelog\n\n## 0.2.0\n\n- The fog horn.\n",
            ),
        ],
    ),
    (
        "cleo",
        "dimmer",
        Some("main"),
        "Dim the lamp at full moon",
        &[(
            "create",
            "src/dimmer.rs",
            "/// How bright the lamp is, in percent.\npub fn brightness(full_moon: bool) -> u8 {\n    if full_moon { 60 } else { 100 }\n}\n",
        )],
    ),
    (
        "cleo",
        "dimmer",
        None,
        "Document the dimmer",
        &[(
            "update",
            "CHANGELOG.md",
            "# Changelog\n\n## Unreleased\n\n- The lamp is dimmed at full moon.\n\n## 0.2.0\n\n- The fog horn.\n",
        )],
    ),
    (
        "dana",
        "quick-start",
        Some("main"),
        "Document the quick start",
        &[(
            "update",
            "README.md",
            "# Lighthouse\n\nThe controller of the lamp and the fog horn.\n\n## Start\n\n```sh\ncargo run -- --period 10\n```\n\nSee [how it is operated](docs/operating.md).\n",
        )],
    ),
    (
        "ben",
        "solar",
        Some("main"),
        "Try a panel on the roof",
        &[(
            "create",
            "docs/solar.md",
            "# Solar\n\nA panel of 2 m2 charges the lamp on 300 days of the year.\n",
        )],
    ),
    (
        "cleo",
        "louder-horn",
        Some("main"),
        "Sound the horn twice as often",
        &[(
            "update",
            "src/horn.rs",
            "//! The fog horn.\n\n/// How often it sounds in a minute.\npub fn blasts(sight: u32) -> u32 {\n    if sight < 1000 { 8 } else { 0 }\n}\n",
        )],
    ),
];

/// Fills the repositories.
pub(super) async fn create<E>(api: &DemoApi<'_, E>, demo_ids: &DemoIds) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    for (author, branch, from, message, files) in COMMITS {
        let pusher = match *author {
            "cleo" if *branch == "main" => "ada",
            "dana" => "ben",
            author => author,
        };
        let by = CommitUsers { pusher, author };
        commit(api, demo_ids.lighthouse, by, (branch, *from), message, files).await?;
    }
    let tags = format!("/projects/{}/repository/tags", demo_ids.lighthouse);
    let first = json!({"tag_name": "v0.1.0", "ref": "main~2"});
    api.post("ada", &tags, first).await?;
    let second = json!({"tag_name": "v0.2.0", "ref": "main", "message": "The one with the horn"});
    api.post("ada", &tags, second).await?;
    let script = "import sys\n\nfor line in sys.stdin:\n    name, latitude, longitude = line.split()\n    print(f\"{name}: {latitude} N, {longitude} E\")\n";
    let first = [
        (
            "create",
            "README.md",
            "# Buoy\n\n`python3 buoy.py < positions.txt`\n",
        ),
        ("create", "buoy.py", script),
    ];
    let ben = CommitUsers::self_made("ben");
    commit(
        api,
        demo_ids.buoy,
        ben,
        ("main", None),
        "Read positions of buoys",
        &first,
    )
    .await?;
    let second = [("create", "positions.txt", "near 54.1 13.2\nfar 54.9 13.4\n")];
    let dana = CommitUsers {
        author: "dana",
        ..ben
    };
    commit(api, demo_ids.buoy, dana, ("main", None), "Add two buoys", &second).await?;
    let notes = [("create", "monday.md", "# Monday\n\nFog. No ships came.\n")];
    commit(
        api,
        demo_ids.notebook,
        CommitUsers::self_made("cleo"),
        ("main", None),
        "Monday",
        &notes,
    )
    .await
}

/// Users of a commit.
#[derive(Debug, Clone, Copy)]
struct CommitUsers<'a> {
    /// The user who pushes: Reporters cannot push, and only Maintainers push to a protected branch.
    pusher: &'a str,
    /// The author.
    author: &'a str,
}

impl<'a> CommitUsers<'a> {
    fn self_made(name: &'a str) -> Self {
        Self {
            pusher: name,
            author: name,
        }
    }
}

async fn commit<E>(
    api: &DemoApi<'_, E>,
    project: i64,
    by: CommitUsers<'_>,
    (branch, from): (&str, Option<&str>),
    message: &str,
    files: &[(&str, &str, &str)],
) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    let actions: Vec<Value> = files
        .iter()
        .map(|(action, path, content)| json!({"action": action, "file_path": path, "content": content}))
        .collect();
    let mut body = json!({
        "branch": branch, "commit_message": message, "actions": actions, "author_name": capital(by.author),
        "author_email": format!("{}@harbor.example", by.author),
    });
    if let Some(from) = from {
        body["start_branch"] = from.into();
    }
    let path = format!("/projects/{project}/repository/commits");
    api.post(by.pusher, &path, body).await?;
    Ok(())
}

fn capital(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}
