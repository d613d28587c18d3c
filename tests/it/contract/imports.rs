//! Reads the imports of a package from its sources.

use std::collections::{BTreeMap, BTreeSet};
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
    Reader::read(source).found
}

/// The modules of a package, with their imports.
pub struct Modules {
    modules: BTreeMap<Vec<String>, Module>,
}

#[derive(Default)]
struct Module {
    /// The paths that the module names.
    paths: Vec<Vec<String>>,
    /// The imported names and their paths. The module re-exports the public ones.
    names: BTreeMap<String, Vec<String>>,
    /// The modules whose names are imported with `*`.
    globs: Vec<Vec<String>>,
    /// The names of the items that the module defines.
    defined: BTreeSet<String>,
    /// Whether the module has other items than imports and module declarations.
    has_items: bool,
}

/// Imports between the units of a package, with an example of each.
pub type Imports = BTreeMap<String, BTreeMap<String, String>>;

impl Modules {
    /// Reads the modules of a package, without those for tests.
    pub fn read(sources: &[Source]) -> Self {
        let own = sources.iter().filter(|source| !source.is_test());
        let modules = own.map(|source| {
            let reader = Reader::read(source);
            let module = Module {
                paths: reader.found,
                names: reader.names,
                globs: reader.globs,
                defined: reader.defined,
                has_items: reader.has_items,
            };
            (source.module.clone(), module)
        });
        Self { modules: modules.collect() }
    }

    /// Returns the paths that a module names, each as segments.
    pub fn paths(&self, module: &[String]) -> &[Vec<String>] {
        &self.modules[module].paths
    }

    /// Returns the module that defines the item of a path, if it belongs to the package. Re-exports and imported names are
    /// followed. `from` is the module that names the path.
    pub fn resolve(&self, from: &[String], path: &[String]) -> Option<Vec<String>> {
        self.follow(from, path, &mut BTreeSet::new())
    }

    fn follow(&self, from: &[String], path: &[String], seen: &mut BTreeSet<Vec<String>>) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        if first == "crate" {
            return self.descend(rest, seen);
        }
        let module = self.modules.get(from)?;
        if let Some(imported) = module.names.get(first) {
            // An import of an external crate under its own name names itself.
            return (imported.first() != Some(first))
                .then(|| self.follow(from, &[imported.as_slice(), rest].concat(), seen))?;
        }
        let child = [from, std::slice::from_ref(first)].concat();
        self.modules.contains_key(&child).then(|| self.descend(&[from, path].concat(), seen))?
    }

    /// Resolves a path from the root of the package.
    fn descend(&self, path: &[String], seen: &mut BTreeSet<Vec<String>>) -> Option<Vec<String>> {
        if !seen.insert(path.to_vec()) {
            return None;
        }
        let mut at = 0;
        while at < path.len() && self.modules.contains_key(&path[..=at]) {
            at += 1;
        }
        let (own, rest) = path.split_at(at);
        let module = self.modules.get(own)?;
        let Some((name, after)) = rest.split_first() else { return Some(own.to_vec()) };
        if let Some(exported) = module.names.get(name) {
            return self.follow(own, &[exported.as_slice(), after].concat(), seen);
        }
        let from_glob = module.globs.iter().find_map(|glob| {
            let source = self.follow(own, glob, seen)?;
            let known = self.modules.get(&source)?;
            let exported = known.defined.contains(name) || known.names.contains_key(name);
            exported.then(|| self.descend(&[source.as_slice(), rest].concat(), seen))?
        });
        Some(from_glob.unwrap_or_else(|| own.to_vec()))
    }

    /// Returns the unit of a module: the outermost module below its area that has items. A module that only declares and
    /// re-exports others is a folder, and its children are units.
    fn unit<'a>(&self, module: &'a [String]) -> &'a [String] {
        let mut length = module.len().min(2);
        while length < module.len() && self.modules.get(&module[..length]).is_none_or(|module| !module.has_items) {
            length += 1;
        }
        &module[..length]
    }

    /// Returns the imports between units. A folder is no unit: it depends on nothing, and an import of it counts as an import
    /// of the items that are used through it.
    pub fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (name, module) in self.modules.iter().filter(|(_, module)| module.has_items) {
            // A glob import names everything that the module re-exports.
            let sources = module.globs.iter().filter_map(|glob| self.resolve(name, glob));
            let reexported = sources.flat_map(|source| {
                let names = self.modules[&source].names.keys();
                let paths = names.map(|name| {
                    ["crate"].into_iter().map(str::to_owned).chain(source.clone()).chain([name.clone()]).collect()
                });
                paths.collect::<Vec<Vec<String>>>()
            });
            for path in module.paths.iter().cloned().chain(reexported) {
                let Some(target) = self.resolve(name, &path) else { continue };
                let (from, to) = (self.unit(name), self.unit(&target));
                if from != to && self.modules[&target].has_items {
                    let example = || format!("{} imports {}", name.join("::"), path.join("::"));
                    imports.entry(from.join("::")).or_default().entry(to.join("::")).or_insert_with(example);
                }
            }
        }
        imports
    }
}

/// Returns the rings: sets of at least two units that import each other, directly or through others.
pub fn rings(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reachable = |from: &str| {
        let mut found = BTreeSet::new();
        let mut open = vec![from.to_owned()];
        while let Some(next) = open.pop() {
            for to in imports.get(&next).into_iter().flat_map(BTreeMap::keys) {
                if found.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        found
    };
    let all: BTreeMap<&String, BTreeSet<String>> = imports.keys().map(|unit| (unit, reachable(unit))).collect();
    let ring_of = |unit: &String| -> BTreeSet<String> {
        let reaches_back = |other: &&String| all.get(other).is_some_and(|back| back.contains(unit));
        all[unit].iter().filter(reaches_back).cloned().collect()
    };
    let rings: BTreeSet<BTreeSet<String>> = imports.keys().map(ring_of).filter(|ring| ring.len() > 1).collect();
    rings.into_iter().collect()
}

#[derive(Default)]
struct Reader {
    module: Vec<String>,
    found: Vec<Vec<String>>,
    names: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    has_items: bool,
}

impl Reader {
    fn read(source: &Source) -> Self {
        let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path.display()));
        let mut reader = Self { module: source.module.clone(), ..Self::default() };
        reader.has_items = file.items.iter().any(|item| match item {
            syn::Item::Use(_) => false,
            syn::Item::Mod(module) => module.content.is_some() && !is_test_only(&module.attrs),
            _ => true,
        });
        reader.defined = file.items.iter().filter_map(defined_name).collect();
        reader.visit_file(&file);
        reader
    }

    /// Returns a path with `crate` in the place of `self` and `super`.
    fn absolute(&self, path: &[String]) -> Vec<String> {
        let rest = match path.first().map(String::as_str) {
            Some("self") => &path[1..],
            Some("super") => path,
            _ => return path.to_vec(),
        };
        let mut absolute = self.module.clone();
        let up = rest.iter().take_while(|segment| *segment == "super").count();
        absolute.truncate(absolute.len().saturating_sub(up));
        absolute.insert(0, "crate".to_owned());
        absolute.extend_from_slice(&rest[up..]);
        absolute
    }

    fn add(&mut self, path: &[String]) {
        if !path.is_empty() {
            self.found.push(self.absolute(path));
        }
    }

    fn add_name(&mut self, name: String, path: &[String]) {
        // `use a::{self}` imports `a`.
        let path = path.strip_suffix(&["self".to_owned()]).filter(|path| !path.is_empty()).unwrap_or(path);
        let name = if name == "self" { path.last().cloned().unwrap_or(name) } else { name };
        self.add(path);
        let path = self.absolute(path);
        self.names.entry(name).or_insert(path);
    }

    fn add_tree(&mut self, prefix: &[String], tree: &syn::UseTree) {
        let extended = |ident: &syn::Ident| [prefix, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&extended(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.add_name(name.ident.to_string(), &extended(&name.ident)),
            syn::UseTree::Rename(rename) => self.add_name(rename.rename.to_string(), &extended(&rename.ident)),
            syn::UseTree::Glob(_) => {
                self.add(prefix);
                self.globs.push(self.absolute(prefix));
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(prefix, item)),
        }
    }
}

/// Returns the name that an item defines, except for imports and modules.
fn defined_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
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
        let is_name = |word: &str| word.starts_with(|first: char| first.is_alphabetic() || first == '_');
        let mut at = 0;
        while at < words.len() {
            let mut path = vec![words[at].to_owned()];
            at += 1;
            while words.get(at) == Some(&"::") && words.get(at + 1).is_some_and(|word| is_name(word)) {
                path.push(words[at + 1].to_owned());
                at += 2;
            }
            if path.len() > 1 && is_name(&path[0]) {
                self.add(&path);
            }
        }
        visit::visit_macro(self, mac);
    }
}

fn rings_are_found_through_folders_reexports_and_names() {
    let source = |module: &str, text: &str| Source {
        path: PathBuf::from(module),
        module: module.split("::").map(str::to_owned).collect(),
        text: text.to_owned(),
    };
    let found = |sources: Vec<Source>| {
        let area = source("area", "pub mod folder;\npub mod other;");
        let sources: Vec<Source> = [area].into_iter().chain(sources).collect();
        rings(&Modules::read(&sources).imports())
    };
    let folder = || source("area::folder", "mod inner;\npub use inner::Item;");
    let inner = || source("area::folder::inner", "use crate::area::other;\npub struct Item(other::Other);");
    let expected = BTreeSet::from(["area::folder::inner".to_owned(), "area::other".to_owned()]);
    for user in [
        "pub struct Other(Option<crate::area::folder::Item>);",
        "use crate::area::folder::Item as Renamed;\npub struct Other(Renamed);",
        "use crate::area::folder;\npub struct Other(folder::Item);",
        "use super::folder::*;\npub struct Other(Item);",
        "pub fn other() { let _ = vec![crate::area::folder::Item]; }",
    ] {
        let other = source("area::other", user);
        assert_eq!(found(vec![folder(), inner(), other]), std::slice::from_ref(&expected), "{user}");
    }
    for user in ["pub struct Other(sea_orm::DbErr);", "#[cfg(test)]\nmod tests { use crate::area::folder::Item; }"] {
        assert!(found(vec![folder(), inner(), source("area::other", user)]).is_empty(), "{user}");
    }
    let parent = source("area::folder", "mod inner;\npub struct Outer(inner::Item);");
    let child = source("area::folder::inner", "pub struct Item(super::Outer);");
    assert!(found(vec![parent, child]).is_empty(), "a module with items is one unit with its children");
}

harness::tests![rings_are_found_through_folders_reexports_and_names];
