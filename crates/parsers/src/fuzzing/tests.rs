//! Tests of the checks with the committed inputs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// Maximum size of all committed inputs, in bytes.
const MAX_CORPUS_BYTES: u64 = 1 << 20;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Returns the names of the entries of a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a name")
        })
        .collect()
}

#[test]
fn committed_inputs_of_fuzz_targets_have_all_properties() {
    let mut bytes = 0;
    for (target, check) in TARGETS {
        let folder = fuzz().join("corpus").join(target);
        let inputs = names(&folder);
        assert!(!inputs.is_empty(), "{target} has no inputs");
        for name in inputs {
            let input = fs::read(folder.join(&name)).expect("an input");
            bytes += input.len() as u64;
            let outcome = std::panic::catch_unwind(|| check(&input));
            assert!(outcome.is_ok(), "fuzz/corpus/{target}/{name} breaks a property");
        }
    }
    assert!(bytes <= MAX_CORPUS_BYTES, "{bytes} bytes of inputs");
}

#[test]
fn each_check_has_a_fuzz_target_and_a_corpus() {
    let expected: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&fuzz().join("corpus")), expected);
    let files: BTreeSet<String> = expected.iter().map(|name| format!("{name}.rs")).collect();
    assert_eq!(names(&fuzz().join("fuzz_targets")), files);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("a manifest");
    for name in expected {
        assert!(
            manifest.contains(&format!("name = \"{name}\"")),
            "{name} is not in fuzz/Cargo.toml"
        );
        let source = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).expect("a target");
        // CI does not compile the targets, so each must be exactly this call of a check with the type in `TARGETS`.
        let call = format!("libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::fuzzing::{name}(input));");
        assert_eq!(source, format!("#![no_main]\n\n{call}\n"), "{name}");
    }
}

#[test]
fn checks_use_no_dependency_of_tests() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules = names(&source.join("fuzzing"));
    let modules = modules.into_iter().filter(|name| name != "tests.rs");
    let mut files: Vec<PathBuf> = modules.map(|name| source.join("fuzzing").join(name)).collect();
    files.push(source.join("fuzzing.rs"));
    for file in files {
        let text = fs::read_to_string(&file).expect("a module");
        for dependency in ["rand::", "tempfile::"] {
            assert!(!text.contains(dependency), "{} uses {dependency}", file.display());
        }
    }
}
