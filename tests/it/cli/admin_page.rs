//! The examples of `docs/ADMIN.md`, run next to a server.

use regex::Regex;
use serde_json::json;
use storage::database::{Database, DatabaseOptions};

use super::admin_jobs::insert_failed;
use crate::support::Client;
use crate::support::git::{Work, output_text};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::group;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ADMIN.md")).expect("the page")
}

/// Returns each command of the page with its output.
fn examples() -> Vec<(Vec<String>, String)> {
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
    let page = page();
    let blocks = page.split("```console\n").skip(1).map(|block| block.split("```").next().expect("a block"));
    for line in blocks.flat_map(str::lines) {
        match (line.strip_prefix("$ holdfast "), found.last_mut()) {
            (Some(command), _) => found.push((words(command), String::new())),
            (None, Some((_, output))) => output.extend([line, "\n"]),
            (None, None) => panic!("output without a command: {line}"),
        }
    }
    found
}

/// Splits a command at spaces outside of double quotes.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in command.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().expect("a word").push(other),
        }
    }
    words
}

/// Replaces times and secrets, which differ in each run, by texts that do not change the width of columns.
fn normalized(text: &str) -> String {
    let replacements = [
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", "TIME"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "0000-00-00T00:00:00Z"),
        (r"Password \(shown once\): \S+", "PASSWORD"),
        (r"hfpat-\S+", "TOKEN"),
        (r#""age_seconds":\d+"#, "AGE"),
    ];
    replacements.iter().fold(text.to_owned(), |text, (pattern, replacement)| {
        Regex::new(pattern).expect("a pattern").replace_all(&text, *replacement).into_owned()
    })
}

async fn examples_have_the_documented_output(site: Site) {
    let server = site.serve(&["--no-worker"]).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let work = Work::new().await;
    std::os::unix::fs::symlink(&work.path, site.sibling_path("tools")).expect("a link");
    let database = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    insert_failed(&database, 41, "deliver_webhook", "connection refused").await;
    insert_failed(&database, 42, "delete_user", "database is locked").await;
    database.close().await.expect("closing");
    let examples = examples();
    assert!(examples.len() > 20, "{examples:?}");
    for (arguments, expected) in examples {
        // The namespaces of the users come first.
        if arguments.iter().any(|argument| argument == "import-repo") {
            group(&root, "engines", json!({})).await;
            group(&root, "machines", json!({})).await;
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = site.run(&arguments).await;
        let printed = output_text(&output);
        assert_eq!(normalized(&printed), normalized(&expected), "{arguments:?}");
        assert!(output.status.success(), "{arguments:?}");
    }
    server.stop().await;
}

/// Each subcommand of `admin` is on the page.
async fn page_names_every_command(site: Site) {
    let help = site.succeeds(&["admin", "--help"]).await;
    let (_, commands) = help.split_once("Commands:\n").expect("the commands");
    let page = page();
    let names = commands.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    for name in names.filter(|name| *name != "help") {
        assert!(page.contains(&format!("admin {name}")), "{name} is missing");
    }
}

on_every_site![examples_have_the_documented_output, page_names_every_command];
