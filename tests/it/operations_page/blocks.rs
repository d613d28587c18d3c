//! The blocks of the page.

use std::collections::BTreeSet;
use std::path::Path;

/// Blocks that a test in this folder runs.
const TESTED_HERE: [&str; 9] = [
    "holdfast.toml",
    "node.toml",
    "object-storage.env",
    "object-storage.toml",
    "postgresql.sql",
    "postgresql.toml",
    "holdfast.service",
    "holdfast-backup.service",
    "holdfast-backup.timer",
];

/// A fenced block.
pub struct Block {
    /// The name after the language; empty if there is none.
    pub name: String,
    /// The lines between the fences.
    pub text: String,
}

/// Returns the text of a file of the repository.
pub fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all blocks of the page.
pub fn blocks() -> Vec<Block> {
    let page = read("docs/OPERATIONS.md");
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                let name = info.split_whitespace().nth(1).unwrap_or_default().to_owned();
                open = Some(Block { name, text: String::new() });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block has no end");
    found
}

/// Returns the text of a block.
pub fn block(name: &str) -> String {
    let found = blocks().into_iter().find(|block| block.name == name);
    found.unwrap_or_else(|| panic!("the page has no block {name}")).text
}

/// Returns the blocks that the scripts in `tests/clients/operations` run. They take them by `block NAME`.
fn tested_by_scripts() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for script in ["day", "machine", "pgbouncer", "proxies"] {
        let text = read(&format!("tests/clients/operations/{script}"));
        let calls = text.split("block ").skip(1);
        names.extend(calls.filter_map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-._".contains(c));
            rest.get(..end?).map(str::to_owned)
        }));
    }
    names
}

fn every_block_has_a_test() {
    let scripts = tested_by_scripts();
    let mut names = BTreeSet::new();
    for block in blocks() {
        let tested = TESTED_HERE.contains(&block.name.as_str()) || scripts.contains(&block.name);
        assert!(tested, "no test runs the block {:?}:\n{}", block.name, block.text);
        assert!(names.insert(block.name.clone()), "two blocks have the name {}", block.name);
    }
    let unknown: Vec<_> = TESTED_HERE.iter().filter(|name| !names.contains(**name)).collect();
    assert!(unknown.is_empty(), "the page has no such blocks: {unknown:?}");
}

/// Links of the page lead to files.
fn links_lead_to_files() {
    let page = read("docs/OPERATIONS.md");
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let missing: Vec<&str> =
        targets.filter(|target| !docs.join(target.split('#').next().unwrap_or_default()).is_file()).collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

harness::tests![every_block_has_a_test, links_lead_to_files];
