//! The counted calls.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use poem::http::Method;
use serde_json::{Value, json};

use crate::history::{CHANGED_FILE, PAGE};

/// Number of parts of the calls. Each part is counted by a process with its own instance.
pub const PARTS: usize = 2;

/// Path of the issues of a project.
pub const ISSUES_PATH: &str = "/api/v4/projects/root%2Fplans/issues";

/// A counted call.
pub struct Call {
    /// Name in the table.
    pub name: &'static str,
    /// Whether the response is cached.
    pub is_cached: bool,
    /// Method of the request.
    pub method: Method,
    /// Path and query of the request.
    pub path: String,
    /// Returns the body of the request with a number.
    pub body: Option<fn(usize) -> Value>,
}

impl Call {
    fn read(name: &'static str, path: String) -> Self {
        Self {
            name,
            is_cached: false,
            method: Method::GET,
            path,
            body: None,
        }
    }

    fn create(name: &'static str, path: String, body: fn(usize) -> Value) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            ..Self::read(name, path)
        }
    }
}

/// Returns the calls of a part. Reads are first, because the others change what they return.
pub fn part(number: usize) -> Vec<Call> {
    let calls = all().into_iter().enumerate();
    calls
        .filter(|(index, _)| index % PARTS == number)
        .map(|(_, call)| call)
        .collect()
}

/// Returns all calls in the order of the table.
pub fn all() -> Vec<Call> {
    let history = "/api/v4/projects/root%2Fhistory/repository";
    let page = utf8_percent_encode(PAGE, NON_ALPHANUMERIC);
    let user = "/api/v4/user".to_owned();
    vec![
        Call::read("current user", user.clone()),
        Call::read("raw file", format!("{history}/files/{page}/raw?ref=main")),
        Call::read("file as JSON", format!("{history}/files/{page}?ref=main")),
        Call::read("commits, page of 20", format!("{history}/commits?ref_name=main")),
        Call::read("commit with stats", format!("{history}/commits/main")),
        Call::read(
            "issues, page of 20, two filters",
            format!("{ISSUES_PATH}?state=opened&labels=bug"),
        ),
        Call::read("notes, page of 30", format!("{ISSUES_PATH}/1/notes?per_page=30")),
        Call::read("projects, page of 20", "/api/v4/projects".to_owned()),
        Call {
            is_cached: true,
            ..Call::read("current user, cached", user)
        },
        Call::create("create an issue", ISSUES_PATH.to_owned(), issue),
        Call::create("create a note", format!("{ISSUES_PATH}/2/notes"), note),
        Call::create("create a commit", format!("{history}/commits"), commit),
    ]
}

/// Returns the attributes of a new issue.
pub fn issue(number: usize) -> Value {
    let labels = if number.is_multiple_of(2) {
        "bug,backend"
    } else {
        "feature"
    };
    json!({
        "title": format!("Issue {number}"),
        "description": "The **lamp** does not light.\n\n1. Start it\n2. Wait",
        "labels": labels,
        "assignee_ids": [1],
    })
}

/// Returns the attributes of a new note.
pub fn note(number: usize) -> Value {
    json!({ "body": format!("Note {number}: this still happens with the new lamp.") })
}

fn commit(number: usize) -> Value {
    json!({
        "branch": "main",
        "commit_message": format!("Change {number}"),
        "actions": [{
            "action": "update",
            "file_path": CHANGED_FILE,
            "content": format!("The lamp flashes {number} times.\n").repeat(40),
        }],
    })
}
