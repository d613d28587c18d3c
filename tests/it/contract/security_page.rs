//! The table in `SECURITY.md` names modules and tests that exist.

use std::path::Path;

/// Directories that the names of modules and tests start from.
const ROOTS: [&str; 4] = ["", "src", "crates/domain/src", "tests/it"];

/// Returns whether a module, test module or file exists. The first part of a module can be the name of a package.
fn exists(name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = name.replace("::", "/");
    let path = path.strip_suffix("/tests").unwrap_or(&path);
    let of_package = path.split_once('/').unwrap_or((path, "lib"));
    let places = ROOTS.map(|start| root.join(start).join(path)).into_iter().chain([root
        .join("crates")
        .join(of_package.0)
        .join("src")
        .join(of_package.1)]);
    places.into_iter().any(|place| place.exists() || place.with_extension("rs").is_file())
}

fn table_names_existing_modules_and_tests() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md")).expect("the page");
    let mut names = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [.., modules, tests] = cells.as_slice() else { continue };
        if cells.len() == 5 {
            names.extend([modules, tests].into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)));
        }
    }
    assert!(names.len() > 80, "{names:?}");
    let missing: Vec<&str> = names.into_iter().filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

harness::tests![table_names_existing_modules_and_tests];
