//! Reads the imports of a package from its sources.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// A Rust file of a package.
pub struct Source {
    /// The path below the root of the workspace.
    pub path: PathBuf,
    /// The module, as segments below the root of the package; empty for the root.
    pub module: Vec<String>,
    /// The text.
    pub text: String,
}

impl Source {
    /// The first segment of the module, or the empty string for the root.
    pub fn area(&self) -> &str {
        self.module.first().map_or("", String::as_str)
    }

    /// Returns whether the file has only tests or helpers of tests.
    pub fn is_test(&self) -> bool {
        self.module.iter().any(|name| is_test_name(OsStr::new(name)))
    }
}

/// Returns whether a folder or module with this name has only tests or helpers of tests.
pub fn is_test_name(name: &OsStr) -> bool {
    ["tests", "testing", "test_repository", "sample"].iter().any(|known| name == *known)
}

/// Returns the Rust files below a folder of the workspace, sorted by path.
pub fn sources(folder: &str) -> Vec<Source> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = workspace.join(folder);
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let inside = path.strip_prefix(&root).expect("a path below the root").with_extension("");
                let mut module: Vec<String> =
                    inside.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
                if module.last().is_some_and(|name| ["mod", "lib", "main"].contains(&name.as_str())) {
                    module.pop();
                }
                let text = std::fs::read_to_string(&path).expect("a file");
                let path = path.strip_prefix(workspace).expect("a path below the workspace").to_owned();
                sources.push(Source { path, module, text });
            }
        }
    }
    assert!(!sources.is_empty(), "{folder} was not found");
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

/// Returns the paths that a file names, each as segments. Paths into the package itself begin with `crate`, also those that
/// the source writes with `self` or `super`. Unit tests are skipped.
pub fn paths(source: &Source) -> Vec<Vec<String>> {
    let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path.display()));
    let mut reader = Reader { module: source.module.clone(), found: Vec::new() };
    reader.visit_file(&file);
    reader.found
}

struct Reader {
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Reader {
    fn add(&mut self, path: &[String]) {
        let Some(first) = path.first() else { return };
        let mut rest = path;
        let mut absolute = match first.as_str() {
            "self" => {
                rest = &path[1..];
                self.module.clone()
            }
            "super" => self.module.clone(),
            _ => {
                self.found.push(path.to_vec());
                return;
            }
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            absolute.pop();
            rest = &rest[1..];
        }
        absolute.insert(0, "crate".to_owned());
        absolute.extend_from_slice(rest);
        self.found.push(absolute);
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let extended = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&extended(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add(&extended(&name.ident)),
            syn::UseTree::Rename(rename) => self.add(&extended(&rename.ident)),
            syn::UseTree::Glob(_) => self.add(prefix),
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(prefix, item)),
        }
    }
}

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().starts_with("test"),
        _ => false,
    })
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test_only(&item.attrs) {
            return;
        }
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            self.add_tree(&[], &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.add(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        // The arguments of a macro are not parsed, so paths are found in their text.
        let tokens = mac.tokens.to_string();
        let words: Vec<&str> = tokens.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            if ["crate", "super", "self"].contains(word) && words.get(at + 1) == Some(&"::") {
                let mut path = vec![(*word).to_owned()];
                let mut next = at + 1;
                while words.get(next) == Some(&"::") && next + 1 < words.len() {
                    path.push(words[next + 1].to_owned());
                    next += 2;
                }
                self.add(&path);
            }
        }
        visit::visit_macro(self, mac);
    }
}
