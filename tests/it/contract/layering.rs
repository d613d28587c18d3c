//! Checks the structure of the sources: packages, the import order of areas, file sizes and names.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::imports::{Modules, paths, rings, sources};

/// Maximum number of lines of a file.
const MAX_LINES: usize = 600;
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 25;
/// Folders with one file per table, migration or kind of Git object.
const FLAT_FOLDERS: [&str; 3] = ["crates/git/src", "crates/storage/src/entities", "migration/src"];
/// Folders that contain Rust code.
const FOLDERS: [&str; 5] = ["src", "crates", "migration/src", "benches", "tests/it"];

/// The packages and the packages of this workspace that each may depend on.
const PACKAGES: [(&str, &[&str]); 13] = [
    ("allocator", &[]),
    ("cache", &[]),
    ("generator", &[]),
    ("contract", &["generator"]),
    ("cryptography", &[]),
    ("parsers", &[]),
    ("git", &["cache", "parsers"]),
    ("harness", &[]),
    ("migration", &[]),
    ("row-derive", &[]),
    ("storage", &["cache", "migration", "row-derive"]),
    ("domain", &["cache", "cryptography", "git", "parsers", "storage"]),
    ("holdfast", &["allocator", "cache", "contract", "domain", "git", "parsers", "storage"]),
];

/// Libraries, and the packages that may depend on them.
const LIBRARIES: [(&str, &[&str]); 13] = [
    ("argon2", &["cryptography"]),
    ("chacha20poly1305", &["cryptography"]),
    ("clap", &["holdfast"]),
    ("git2", &["git"]),
    ("gix", &["git"]),
    ("hyper", &["holdfast"]),
    ("object_store", &["domain"]),
    ("poem", &["holdfast"]),
    ("poem-openapi", &["contract", "holdfast"]),
    ("quick_cache", &["cache"]),
    ("reqwest", &["domain"]),
    ("scim_v2", &["parsers"]),
    ("sea-orm", &["domain", "storage"]),
];

/// The areas of `domain`, lowest first. An area imports only areas before it.
const AREAS: [&str; 23] = [
    "secrets",
    "integrations",
    "kernel",
    "audit",
    "instance",
    "identity",
    "activity",
    "code",
    "accounts",
    "spaces",
    "delivery",
    "planning",
    "releases",
    "review",
    "discussion",
    "registry",
    "packages",
    "security",
    "webhooks",
    "mirrors",
    "transfers",
    "lifecycle",
    "operations",
];

/// The areas of the server, and the areas that each may import. `app`, `cli`, `server` and `worker` connect the others.
const SERVER: [(&str, &[&str]); 6] = [
    ("api", &["app", "config", "observability"]),
    ("config", &[]),
    ("handlers", &["api", "app", "views"]),
    ("observability", &["config"]),
    ("views", &["api"]),
    ("web", &["api", "config", "observability", "views"]),
];

fn metadata() -> Value {
    let mut cargo = std::process::Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--manifest-path"]);
    let output = cargo.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Returns the names of the dependencies of each package, without those of its tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().expect("dependencies");
            let used = dependencies.iter().filter(|dependency| dependency["kind"] != "dev");
            (text(&package["name"]), used.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

fn packages_depend_in_one_direction() {
    let found = dependencies();
    let names: BTreeSet<&str> = PACKAGES.iter().map(|(name, _)| *name).collect();
    assert_eq!(found.keys().map(String::as_str).collect::<BTreeSet<_>>(), names);
    for (name, allowed) in PACKAGES {
        let own = found[name].iter().map(String::as_str).filter(|dependency| names.contains(dependency));
        let forbidden: Vec<&str> = own.filter(|dependency| !allowed.contains(dependency)).collect();
        assert!(forbidden.is_empty(), "{name} must not depend on {forbidden:?}");
    }
}

fn libraries_are_used_only_in_their_packages() {
    for (package, dependencies) in dependencies() {
        for (library, packages) in LIBRARIES {
            let allowed = packages.contains(&package.as_str()) || !dependencies.contains(library);
            assert!(allowed, "{package} must not depend on {library}");
        }
    }
}

/// Returns the area of the package that a path leads to.
fn target(path: &[String]) -> Option<&str> {
    match path {
        [first, area, ..] if first == "crate" => Some(area),
        _ => None,
    }
}

fn areas_import_only_lower_areas() {
    let rank = |area: &str| AREAS.iter().position(|known| *known == area);
    let sources = sources("crates/domain/src");
    let modules = Modules::read(&sources);
    let mut errors = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test() && !source.area().is_empty()) {
        let from = source.area();
        let own = rank(from).unwrap_or_else(|| panic!("{from} is not a known area"));
        for path in modules.paths(&source.module) {
            let defined = modules.resolve(&source.module, path);
            let areas = [target(path), defined.as_ref().and_then(|module| module.first().map(String::as_str))];
            if areas.into_iter().flatten().filter_map(rank).any(|other| other > own) {
                errors.push(format!("{}: {}", source.path.display(), path.join("::")));
            }
        }
    }
    assert!(errors.is_empty(), "imports of higher areas:\n{}", errors.join("\n"));
}

/// Modules may import each other only in one direction. The unit is the outermost module below an area that has items of its
/// own. Within a unit, a parent module and its children may use each other.
fn modules_import_in_one_direction() {
    for folder in ["crates/domain/src", "crates/parsers/src", "src"] {
        let imports = Modules::read(&sources(folder)).imports();
        let lines = |ring: &BTreeSet<String>| -> Vec<String> {
            let within = |from: &String| imports[from].iter().filter(|(to, _)| ring.contains(*to));
            ring.iter().flat_map(within).map(|(_, example)| format!("  {example}")).collect()
        };
        let rings: Vec<String> = rings(&imports).iter().map(|ring| lines(ring).join("\n")).collect();
        assert!(rings.is_empty(), "rings of imports in {folder}:\n{}", rings.join("\n\n"));
    }
}

fn server_modules_import_in_one_direction() {
    let mut errors = Vec::new();
    for source in sources("src").iter().filter(|source| !source.is_test()) {
        let Some((_, allowed)) = SERVER.iter().find(|(area, _)| *area == source.area()) else { continue };
        for path in paths(source) {
            let Some(to) = target(&path) else { continue };
            let known =
                to == "handlers" || to == "server" || to == "worker" || SERVER.iter().any(|(area, _)| *area == to);
            if known && to != source.area() && !allowed.contains(&to) {
                errors.push(format!("{}: {}", source.path.display(), path.join("::")));
            }
        }
    }
    assert!(errors.is_empty(), "imports against the direction:\n{}", errors.join("\n"));
}

fn only_api_web_and_the_application_name_poem() {
    let allowed = ["api", "app", "server", "web"];
    for source in sources("src").iter().filter(|source| !source.is_test() && !allowed.contains(&source.area())) {
        let paths = paths(source);
        for library in ["poem", "poem_openapi", "hyper"] {
            let is_named = paths.iter().any(|path| path.first().is_some_and(|first| first == library));
            assert!(!is_named, "{} names {library}", source.path.display());
        }
    }
}

/// A row that is created and updated at two times would show a change that did not happen.
fn rows_are_written_with_one_time() {
    let reads_clock =
        |line: &&str| ["Set(now())", "Set(Some(now()))", "then(now)"].iter().any(|call| line.contains(call));
    for source in sources("crates/domain/src") {
        let lines = || source.text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        let twice = lines().zip(lines().skip(1)).find(|(line, next)| reads_clock(line) && reads_clock(next));
        assert!(twice.is_none(), "{} reads the time twice: {twice:?}", source.path.display());
    }
}

fn tests_of_the_harness_are_not_declared_by_attribute() {
    // The compiler removes such functions from targets with `harness = false`.
    for source in ["tests/it", "crates/storage/src", "migration/tests"].into_iter().flat_map(sources) {
        let is_declared = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let declared = source.text.lines().map(str::trim).find(|line| is_declared(line));
        assert!(declared.is_none(), "{}: register the test with harness::tests!", source.path.display());
    }
}

fn files_and_folders_are_small_and_have_specific_names() {
    let mut entries: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in FOLDERS.iter().flat_map(|folder| sources(folder)) {
        let (path, lines) = (source.path.display().to_string(), source.text.lines().count());
        assert!(lines <= MAX_LINES, "{path} has {lines} lines (maximum is {MAX_LINES})");
        let name = source.path.file_stem().expect("a name").to_string_lossy().into_owned();
        let unspecific = ["utils", "util", "helpers", "helper", "manager", "common", "misc"];
        assert!(!unspecific.contains(&name.as_str()), "{path} has an unspecific name");
        let parts: Vec<&str> = path.split('/').collect();
        for end in 1..parts.len() {
            entries.entry(parts[..end].join("/")).or_default().insert(parts[end].to_owned());
        }
    }
    for (folder, entries) in entries.iter().filter(|(folder, _)| !folder.starts_with("tests/")) {
        let count = entries.len();
        let small = count <= MAX_ENTRIES || FLAT_FOLDERS.contains(&folder.as_str());
        assert!(small, "{folder} has {count} entries (maximum is {MAX_ENTRIES})");
    }
}

harness::tests![
    packages_depend_in_one_direction,
    libraries_are_used_only_in_their_packages,
    areas_import_only_lower_areas,
    server_modules_import_in_one_direction,
    modules_import_in_one_direction,
    only_api_web_and_the_application_name_poem,
    rows_are_written_with_one_time,
    tests_of_the_harness_are_not_declared_by_attribute,
    files_and_folders_are_small_and_have_specific_names,
];
