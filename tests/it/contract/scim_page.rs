//! The page about the RFCs of SCIM covers each section of the protocol, and names tests that exist.

use std::path::Path;

/// The page.
const PAGE: &str = "docs/api-design/scim.md";
/// Directories that the names of modules start from.
const ROOTS: [&str; 2] = ["tests/it", "src"];
/// Sections of RFC 7644 and RFC 7643 on the page, each with the number of its subsections.
const SUBSECTIONS: [(&str, usize); 19] = [
    ("3.1", 0),
    ("3.2", 0),
    ("3.3", 1),
    ("3.4", 3),
    ("3.4.2", 4),
    ("3.5", 2),
    ("3.5.2", 3),
    ("3.6", 0),
    ("3.7", 4),
    ("3.8", 0),
    ("3.9", 0),
    ("3.10", 0),
    ("3.11", 0),
    ("3.12", 0),
    ("3.13", 0),
    ("3.14", 0),
    ("4", 0),
    ("5", 0),
    ("7", 0),
];

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the cells of the rows of the tables.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let cells = rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect::<Vec<_>>());
    cells.filter(|cells| cells.first() != Some(&"Section")).collect()
}

/// Returns whether a test function or a file exists. The first part of a module can be the name of a package.
fn exists(name: &str) -> bool {
    if name.contains('/') {
        return workspace().join(name).is_file();
    }
    let Some((module, function)) = name.rsplit_once("::") else { return false };
    let path = module.replace("::", "/");
    let mut places: Vec<_> = ROOTS.map(|start| workspace().join(start).join(&path)).into();
    if let Some((package, rest)) = path.split_once('/') {
        places.push(workspace().join("crates").join(package).join("src").join(rest));
    }
    let files = places.iter().flat_map(|place| [place.with_extension("rs"), place.join("mod.rs")]);
    let sources = files.filter_map(|file| std::fs::read_to_string(file).ok());
    sources.into_iter().any(|source| source.contains(&format!("fn {function}(")))
}

fn page_names_existing_tests() {
    let page = std::fs::read_to_string(workspace().join(PAGE)).expect("the page");
    let mut names = Vec::new();
    for row in rows(&page) {
        assert_eq!(row.len(), 4, "{row:?}");
        let tests: Vec<_> = row[3].split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{row:?}");
        names.extend(tests);
    }
    assert!(names.len() > 60, "{names:?}");
    let missing: Vec<_> = names.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn page_covers_each_section() {
    let page = std::fs::read_to_string(workspace().join(PAGE)).expect("the page");
    let covered: Vec<_> = rows(&page).iter().flat_map(|row| row[0].split(", ")).map(str::to_owned).collect();
    for (section, parts) in SUBSECTIONS {
        let parts = (1..=parts).map(|part| format!("{section}.{part}"));
        // A section can consist of its subsections only.
        let own = (section != "3.4").then(|| section.to_owned());
        for number in parts.chain(own) {
            assert!(covered.contains(&number), "{number} is missing");
        }
    }
}

harness::tests![page_names_existing_tests, page_covers_each_section];
