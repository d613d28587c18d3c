//! The direction of imports (design 2) and the size of files, read off the source.

use std::path::{Path, PathBuf};

/// Longest file, in lines.
const LONGEST: usize = 600;

/// What the files of an area may name of this crate, beside their own area. `main`, `server` and `app` tie
/// everything together and are free.
const AREAS: [(&str, &[&str]); 14] = [
    ("api", &["error", "policy", "services", "app"]),
    ("web", &["api", "config", "error", "git", "policy", "secrets", "services", "views"]),
    ("handlers", &["api", "app", "error", "services", "views"]),
    (
        "services",
        &[
            "api::types",
            "api::contract",
            "database",
            "entities",
            "error",
            "git",
            "integrations",
            "jobs",
            "policy",
            "secrets",
        ],
    ),
    ("views", &["api::types", "api::contract", "entities", "git", "policy", "services"]),
    ("entities", &[]),
    ("git", &[]),
    ("integrations", &["secrets"]),
    ("policy", &["entities"]),
    ("jobs", &["database", "entities", "error", "git", "secrets", "services"]),
    ("database", &["entities", "jobs"]),
    ("secrets", &[]),
    ("config", &["policy"]),
    ("error", &[]),
];

/// External crates that only some areas may name.
const CRATES: [(&str, &[&str]); 7] = [
    ("poem", &["api", "web", "app", "server"]),
    ("poem_openapi", &["api", "app"]),
    ("sea_orm", &["entities", "services", "database", "jobs"]),
    ("git2", &["git"]),
    ("gix", &["git"]),
    ("reqwest", &["integrations"]),
    ("utoipa_swagger_ui", &["web"]),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    let sources = sources_below("src");
    assert!(sources.len() > 50, "the source was not found");
    sources
}

fn sources_below(folder: &str) -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("below the folder").to_owned();
                let first = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
                let text = std::fs::read_to_string(&path).expect("a file");
                sources.push((first.trim_end_matches(".rs").to_owned(), inside, text));
            }
        }
    }
    sources
}

/// The code without comments and without the unit tests at the end of a file.
fn code(text: &str) -> impl Iterator<Item = &str> {
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    body.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

/// Unit tests in files of their own may use what they like.
fn is_test(path: &Path) -> bool {
    let name = path.to_string_lossy();
    ["tests", "testing", "sample"].iter().any(|word| name.contains(word))
}

#[test]
fn imports_point_one_way() {
    let mut faults = Vec::new();
    for (area, path, text) in sources().iter().filter(|(_, path, _)| !is_test(path)) {
        let Some((_, allowed)) = AREAS.iter().find(|(name, _)| name == area) else {
            continue;
        };
        for line in code(text) {
            for (at, _) in line.match_indices("crate::") {
                // A path inside a word (`mycrate::`) is none of ours.
                let before = line[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
                    continue;
                }
                let named = &line[at + "crate::".len()..];
                let fits = |known: &str| {
                    named
                        .strip_prefix(known)
                        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
                };
                let grouped = named.starts_with('{');
                if !(grouped || fits(area) || allowed.iter().any(|known| fits(known))) {
                    faults.push(format!("src/{}: {line}", path.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "imports against the direction of design 2:\n{}", faults.join("\n"));
}

#[test]
fn crates_are_named_only_where_they_belong() {
    let mut faults = Vec::new();
    for (area, path, text) in sources().iter().filter(|(_, path, _)| !is_test(path)) {
        for line in code(text) {
            for (name, areas) in CRATES {
                let named = line.starts_with(&format!("use {name}::")) || line.contains(&format!(" {name}::"));
                if named && !areas.contains(&area.as_str()) && area != "main" {
                    faults.push(format!("src/{}: {line}", path.display()));
                }
            }
            if line.contains("StatusCode") && !["api", "web"].contains(&area.as_str()) {
                faults.push(format!("src/{}: {line}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "crates outside their areas:\n{}", faults.join("\n"));
}

/// A row that is created and updated at two times would show one that was changed the moment it was made.
#[test]
fn a_row_is_written_at_one_time() {
    let asks = |line: &&str| ["Set(now())", "Set(Some(now()))", "then(now)"].iter().any(|ask| line.contains(ask));
    for (_, path, text) in sources() {
        let twice = code(&text).zip(code(&text).skip(1)).find(|(line, next)| asks(line) && asks(next));
        assert!(twice.is_none(), "src/{} asks twice what time it is: {twice:?}", path.display());
    }
}

#[test]
fn nothing_imports_handlers_but_the_list_of_modules() {
    for (area, path, text) in sources() {
        let named = code(&text).any(|line| line.contains("crate::handlers"));
        assert!(!named || area == "app" || area == "handlers", "src/{} names the handlers", path.display());
    }
}

#[test]
fn files_stay_short_and_are_named_for_what_they_hold() {
    let folders = ["src", "migration/src", "benches", "tests/it", "crates"];
    for folder in folders {
        let sources = sources_below(folder);
        assert!(!sources.is_empty(), "{folder} was not found");
        for (_, path, text) in sources {
            let lines = text.lines().count();
            assert!(lines <= LONGEST, "{folder}/{} has {lines} lines, more than {LONGEST}", path.display());
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let empty = ["utils", "util", "helpers", "helper", "manager", "common", "misc"];
            assert!(!empty.contains(&name.as_str()), "{folder}/{} is named for nothing", path.display());
        }
    }
}
