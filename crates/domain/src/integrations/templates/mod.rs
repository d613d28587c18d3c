//! Templates that are available to every project: Dockerfiles, `.gitignore` files, CI/CD configurations and
//! licenses.

pub mod licenses;

/// A file template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateFile {
    /// The key, which is also the name.
    pub key: &'static str,
    /// The full text.
    pub content: &'static str,
}

/// Embeds the files of a folder below `assets/templates`, ordered by key.
macro_rules! files {
    ($folder:literal, $ending:literal, $($key:literal,)+) => {
        &[$(TemplateFile {
            key: $key,
            content: include_str!(concat!("../../../assets/templates/", $folder, "/", $key, $ending)),
        }),+]
    };
}

/// Dockerfile templates.
#[rustfmt::skip]
pub const DOCKERFILES: &[TemplateFile] = files![
    "dockerfiles", ".dockerfile",
    "Binary",
    "Golang",
    "HTTPd",
    "Java",
    "Nginx",
    "Node",
    "PHP",
    "Perl",
    "Python",
    "Ruby",
    "Rust",
    "Swift",
];

/// Templates of `.gitignore` files.
#[rustfmt::skip]
pub const GITIGNORES: &[TemplateFile] = files![
    "gitignores", ".gitignore",
    "Actionscript",
    "Ada",
    "Android",
    "C",
    "C++",
    "CMake",
    "Clojure",
    "Crystal",
    "D",
    "Dart",
    "Elixir",
    "Elm",
    "Emacs",
    "Erlang",
    "Fortran",
    "Go",
    "Gradle",
    "Haskell",
    "Java",
    "JetBrains",
    "Julia",
    "Kotlin",
    "Linux",
    "Lua",
    "Maven",
    "Nim",
    "Node",
    "OCaml",
    "PHP",
    "Perl",
    "Python",
    "R",
    "Rails",
    "Ruby",
    "Rust",
    "Scala",
    "Swift",
    "TeX",
    "Terraform",
    "Unity",
    "Vim",
    "VisualStudio",
    "VisualStudioCode",
    "Windows",
    "Zig",
    "macOS",
];

/// CI/CD configuration templates.
#[rustfmt::skip]
pub const CI_FILES: &[TemplateFile] = files![
    "ci", ".yml",
    "Android",
    "Bash",
    "C++",
    "CMake",
    "Clojure",
    "Crystal",
    "Dart",
    "Django",
    "Docker",
    "Elixir",
    "Go",
    "Gradle",
    "Haskell",
    "Julia",
    "LaTeX",
    "Laravel",
    "Lua",
    "Maven",
    "Nodejs",
    "OCaml",
    "PHP",
    "Pages/HTML",
    "Pages/Hugo",
    "Pages/Sphinx",
    "Perl",
    "Python",
    "R",
    "Ruby",
    "Rust",
    "Scala",
    "Swift",
    "Terraform",
];

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn files_below(folder: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => found.extend(files_below(&path)),
                false => found.push(path),
            }
        }
        found
    }

    #[test]
    fn every_template_file_is_listed_in_order() {
        let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/templates");
        for (folder, ending, files) in [
            ("dockerfiles", ".dockerfile", DOCKERFILES),
            ("gitignores", ".gitignore", GITIGNORES),
            ("ci", ".yml", CI_FILES),
        ] {
            let folder = assets.join(folder);
            let mut existing: Vec<String> = files_below(&folder)
                .into_iter()
                .map(|path| {
                    let path = path
                        .strip_prefix(&folder)
                        .expect("a path")
                        .to_str()
                        .expect("a text");
                    path.strip_suffix(ending).expect("the ending").replace('\\', "/")
                })
                .collect();
            existing.sort();
            let listed: Vec<&str> = files.iter().map(|file| file.key).collect();
            assert_eq!(listed, existing);
        }
        assert_eq!(std::fs::read_dir(assets).expect("a folder").count(), 3);
    }

    #[test]
    fn template_files_have_clean_whitespace() {
        for file in [DOCKERFILES, GITIGNORES, CI_FILES].concat() {
            let content = file.content;
            assert!(
                content.ends_with('\n') && !content.ends_with("\n\n"),
                "{}",
                file.key
            );
            assert!(!content.contains(['\r', '\t']), "{}", file.key);
            let trailing = content.lines().find(|line| line.ends_with(' '));
            assert_eq!(trailing, None, "{}", file.key);
        }
    }

    #[test]
    fn dockerfile_templates_have_base_image_and_command_or_port() {
        const WORDS: [&str; 12] = [
            "ARG",
            "CMD",
            "COPY",
            "ENTRYPOINT",
            "ENV",
            "EXPOSE",
            "FROM",
            "RUN",
            "USER",
            "VOLUME",
            "WORKDIR",
            "ADD",
        ];
        for file in DOCKERFILES {
            let mut continued = false;
            let mut words = Vec::new();
            for line in file.content.lines() {
                let line = line.trim();
                if !continued && !line.is_empty() && !line.starts_with('#') {
                    let word = line.split(' ').next().unwrap_or_default();
                    assert!(WORDS.contains(&word), "{}: {line}", file.key);
                    words.push(word);
                }
                continued = line.ends_with('\\');
            }
            assert_eq!(words.first(), Some(&"FROM"), "{}", file.key);
            let serves = words
                .iter()
                .any(|word| ["CMD", "ENTRYPOINT", "EXPOSE"].contains(word));
            assert!(serves, "{}", file.key);
        }
    }

    #[test]
    fn gitignore_templates_have_unique_valid_patterns() {
        for file in GITIGNORES {
            let patterns: Vec<&str> = file
                .content
                .lines()
                .filter(|line| !line.is_empty() && !line.starts_with('#'))
                .collect();
            assert!(patterns.len() > 1, "{}", file.key);
            let mut once = patterns.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), patterns.len(), "{}", file.key);
            for pattern in patterns {
                let balanced = pattern.matches('[').count() == pattern.matches(']').count();
                assert!(balanced && pattern.trim() == pattern, "{}: {pattern}", file.key);
            }
        }
    }

    #[test]
    fn ci_template_jobs_have_scripts() {
        /// Top-level keywords other than jobs.
        const GLOBAL: [&str; 8] = [
            "image",
            "services",
            "stages",
            "variables",
            "cache",
            "before_script",
            "default",
            "workflow",
        ];
        for file in CI_FILES {
            let read: serde_json::Value =
                yaml_serde::from_str(file.content).unwrap_or_else(|error| panic!("{}: {error}", file.key));
            let mut stages: Vec<&str> = ["build", "test", "deploy"].to_vec();
            if let Some(own) = read["stages"].as_array() {
                stages = own.iter().filter_map(|stage| stage.as_str()).collect();
            }
            let mut jobs = 0;
            for (name, job) in read.as_object().expect("an object") {
                if GLOBAL.contains(&name.as_str()) {
                    continue;
                }
                jobs += 1;
                let stage = job["stage"].as_str().unwrap_or("test");
                assert!(stages.contains(&stage), "{}: {name} in {stage}", file.key);
                let script = job["script"].as_array();
                let script = script.unwrap_or_else(|| panic!("{}: {name} has no script", file.key));
                let texts = script.iter().all(serde_json::Value::is_string);
                assert!(texts && !script.is_empty(), "{}: {name}", file.key);
            }
            assert!(jobs > 0, "{}", file.key);
            let before = read["before_script"].as_array().cloned().unwrap_or_default();
            assert!(before.iter().all(serde_json::Value::is_string), "{}", file.key);
        }
    }

    #[test]
    fn common_templates_exist() {
        let has = |files: &[TemplateFile], key: &str| files.iter().any(|file| file.key == key);
        for key in [
            "Binary", "Golang", "HTTPd", "Node", "PHP", "Python", "Ruby", "Rust",
        ] {
            assert!(has(DOCKERFILES, key), "{key}");
        }
        for key in ["Actionscript", "C++", "Node", "Python", "Rust"] {
            assert!(has(GITIGNORES, key), "{key}");
        }
        for key in ["Android", "Bash", "C++", "Docker", "Nodejs", "Python", "Rust"] {
            assert!(has(CI_FILES, key), "{key}");
        }
        assert!(CI_FILES.len() > 20, "clients expect a second page");
    }
}
