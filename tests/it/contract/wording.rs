//! The words that `docs/STYLE.md` excludes appear in no comment, document or text of the server.

use std::path::{Path, PathBuf};

use super::imports::{is_test_name, sources};
use super::source_text::{Text, comments, literals};

/// Folders with Rust sources.
const FOLDERS: [&str; 5] = ["src", "crates", "migration/src", "benches", "tests/it"];
/// The style guide, which lists the words.
const GUIDE: &str = "docs/STYLE.md";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the words and phrases that the style guide excludes.
fn excluded() -> Vec<String> {
    let guide = std::fs::read_to_string(workspace().join(GUIDE)).expect("the style guide");
    let (_, section) = guide.split_once("## Excluded words\n").expect("the section of excluded words");
    let list = section.trim_start().split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let words: Vec<String> = list.trim_end_matches('.').split(", ").map(str::to_owned).collect();
    assert!(words.len() > 20, "the style guide lists {words:?}");
    words
}

/// Returns the excluded words of a text. Code between backticks is not prose.
fn find<'a>(text: &str, excluded: &'a [String]) -> Vec<&'a str> {
    let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" code ").to_lowercase();
    let plain: String = prose.chars().map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' }).collect();
    let words = format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "));
    excluded.iter().map(String::as_str).filter(|word| words.contains(&format!(" {word} "))).collect()
}

/// Returns a line for each text with an excluded word.
fn errors(path: &Path, texts: &[Text<'_>], excluded: &[String]) -> Vec<String> {
    let fault = |text: &Text<'_>| {
        let found = find(text.text, excluded);
        (!found.is_empty()).then(|| format!("{}:{}: {found:?}", path.display(), text.line))
    };
    texts.iter().filter_map(fault).collect()
}

fn comments_have_no_excluded_words() {
    let excluded = excluded();
    let sources = FOLDERS.iter().flat_map(|folder| sources(folder));
    let errors: Vec<_> = sources.flat_map(|source| errors(&source.path, &comments(&source.text), &excluded)).collect();
    assert!(errors.is_empty(), "see {GUIDE}:\n{}", errors.join("\n"));
}

/// Literals without a space are data, such as file names.
fn texts_of_the_server_have_no_excluded_words() {
    let excluded = excluded();
    // The generator lists the excluded words itself.
    let is_prose = |text: &str| text.contains(' ') && !excluded.iter().any(|word| word == text);
    let mut found = Vec::new();
    for source in ["src", "crates"].iter().flat_map(|folder| sources(folder)) {
        let tests = source.is_test() || source.path.components().any(|part| is_test_name(part.as_os_str()));
        if !tests {
            let body = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let texts: Vec<_> = literals(body).into_iter().filter(|text| is_prose(text.text)).collect();
            found.extend(errors(&source.path, &texts, &excluded));
        }
    }
    assert!(found.is_empty(), "see {GUIDE}:\n{}", found.join("\n"));
}

/// Returns the Markdown files of the workspace, except the style guide.
fn documents() -> Vec<PathBuf> {
    let mut documents = Vec::new();
    let mut folders: Vec<PathBuf> = ["docs", "openapi"].iter().map(|folder| workspace().join(folder)).collect();
    let mut add = |path: PathBuf| {
        let text = path.extension().is_some_and(|extension| extension == "md");
        if text && !path.ends_with(GUIDE) {
            documents.push(path);
        }
    };
    let entries = |folder: &Path| std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    entries(workspace()).for_each(&mut add);
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            match path.is_dir() {
                true => folders.push(path),
                false => add(path),
            }
        }
    }
    assert!(documents.len() > 10, "the documents were not found");
    documents
}

fn documents_have_no_excluded_words() {
    let excluded = excluded();
    let mut found = Vec::new();
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        let lines: Vec<_> = text.lines().enumerate().map(|(at, text)| Text { line: at + 1, text }).collect();
        found.extend(errors(&path, &lines, &excluded));
    }
    assert!(found.is_empty(), "see {GUIDE}:\n{}", found.join("\n"));
}

harness::tests![
    comments_have_no_excluded_words,
    texts_of_the_server_have_no_excluded_words,
    documents_have_no_excluded_words,
];
