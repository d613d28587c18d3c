//! Tests of files with code owners.

use super::*;

fn owned(file: &str, paths: &[&str]) -> Vec<OwnedPattern> {
    let owners = CodeOwners::parse(file.as_bytes()).unwrap();
    let paths: Vec<PathSegments> = paths.iter().map(|path| PathSegments::new(path)).collect();
    owners.owned_patterns(&paths).unwrap()
}

fn patterns(file: &str, paths: &[&str]) -> Vec<String> {
    let found = owned(file, paths).into_iter();
    found.map(|owned| owned.pattern).collect()
}

fn matches(pattern: &str, path: &str) -> bool {
    !patterns(&format!("{pattern} @a"), &[path]).is_empty()
}

fn name(name: &str) -> Owner {
    Owner::Name(name.to_owned())
}

#[test]
fn pattern_matches_as_in_the_reference_service() {
    for (pattern, path) in [
        ("*", "a"),
        ("*", "a/.b/c"),
        ("README.md", "README.md"),
        ("README.md", "docs/README.md"),
        ("/README.md", "README.md"),
        ("*.md", "docs/.x.md"),
        ("docs/", "docs/a"),
        ("docs/", "x/docs/a/b"),
        ("/docs/", "docs/a/b/c"),
        ("/docs/*", "docs/a"),
        ("/docs/**/*", "docs/a/b"),
        ("/docs/**/x.md", "docs/x.md"),
        ("/docs/**/x.md", "docs/a/b/x.md"),
        ("**/lib/*.rb", "a/b/lib/c.rb"),
        ("a?c", "abc"),
        ("a[0-9]c", "a5c"),
        ("a[^0-9]c", "abc"),
        ("[ab].txt", "b.txt"),
        (r"a\*c", "a*c"),
        (r"\#x", "#x"),
        (r"a\ b.txt", "a b.txt"),
        ("a[b", "a[b"),
        ("a*b*c", "aXbYbZc"),
        ("/a/**/b/**/c", "a/x/b/y/b/z/c"),
        ("ä?.txt", "äö.txt"),
    ] {
        assert!(matches(pattern, path), "{pattern} {path}");
    }
    for (pattern, path) in [
        ("docs", "docs/a"),
        ("/README.md", "docs/README.md"),
        ("/docs/*", "docs/a/b"),
        ("/docs/**", "docs/a/b"),
        ("a?c", "a/c"),
        ("a*c", "a/c"),
        ("a[/]c", "a/c"),
        ("a[0-9]c", "abc"),
        (r"a\*c", "abc"),
        ("/a/**/b/c", "a/b/x/c"),
        ("a*b*c", "aXbYbZ"),
        ("readme.md", "README.md"),
        ("/", "x"),
    ] {
        assert!(pattern == "/" || !matches(pattern, path), "{pattern} {path}");
    }
}

#[test]
fn last_matching_line_of_each_section_selects_the_owners() {
    let file = "* @default\n*.rb @ruby # @none\n/lib/ @lib a@b.example\n[Docs] @writers\n*.md\nREADME.md @boss\n\
                ^[Optional][3]\n*.md @x/y\n*.none\n";
    assert_eq!(patterns(file, &["a.rb"]), ["*.rb"]);
    assert_eq!(patterns(file, &["lib/a.rb", "lib/b.rb"]), ["/lib/"]);
    let found = owned(file, &["x.md", "README.md", "a.none"]);
    let shown: Vec<_> = found
        .iter()
        .map(|owned| {
            (
                owned.pattern.as_str(),
                owned.section.as_deref(),
                owned.is_optional,
                owned.approvals,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("*", None, false, 1),
            ("*.md", Some("Docs"), false, 1),
            ("README.md", Some("Docs"), false, 1),
            ("*.md", Some("Optional"), true, 3),
        ]
    );
    assert_eq!(found[1].owners, [name("writers")]);
    assert_eq!(found[3].owners, [name("x/y")]);
    let lib = owned(file, &["lib/x"]);
    assert_eq!(
        lib[0].owners,
        [name("lib"), Owner::Email("a@b.example".to_owned())]
    );
}

#[test]
fn line_without_owners_removes_those_of_earlier_lines() {
    assert_eq!(patterns("* @a\n/generated/\n", &["generated/x"]), [""; 0]);
    assert_eq!(patterns("* @a\n!/generated/\n", &["generated/x", "y"]), ["*"]);
    assert_eq!(
        patterns("* @a\n!/generated/\n/generated/x @b", &["generated/x"]),
        [""; 0]
    );
    assert_eq!(patterns("* @a\n[S]\n!*.md\n* @b", &["x.md"]), ["*"]);
}

#[test]
fn headers_with_one_name_are_one_section() {
    let file = "^[Docs] @a\n/a\n[docs][2] @b\n/b\n";
    let found = owned(file, &["a", "b"]);
    let owners: Vec<_> = found.iter().map(|owned| owned.owners.clone()).collect();
    assert_eq!(owners, [vec![name("a")], vec![name("b")]]);
    assert!(
        found
            .iter()
            .all(|owned| owned.approvals == 2 && !owned.is_optional)
    );
    assert!(found.iter().all(|owned| owned.section.as_deref() == Some("Docs")));
    let clamped = owned("[A][0] @a\n*\n[B][99999999999]\n* @b\n", &["x"]);
    assert_eq!((clamped[0].approvals, clamped[1].approvals), (1, MAX_APPROVALS));
}

#[test]
fn malformed_lines_are_patterns_or_ignored() {
    for (file, path) in [
        ("[a]b @x", "ab"),
        ("[a @x", "[a"),
        ("[a][x] @y", "ax"),
        ("\u{feff}a @x", "a"),
        ("a @x\r\n", "a"),
        ("  a\t@x  ", "a"),
    ] {
        assert_eq!(patterns(file, &[path]).len(), 1, "{file}");
    }
    for file in [
        "# a @x",
        "",
        "a",
        "a x",
        "a @",
        "a @@developers",
        "a @x!",
        "a x@",
        "a @x@y@z",
        "! @x",
        "[] @x",
    ] {
        assert_eq!(patterns(file, &["a"]), [""; 0], "{file}");
    }
    let invalid = CodeOwners::parse(b"\xff.txt @a\n\xfe").unwrap();
    let path = PathSegments::new(&String::from_utf8_lossy(b"\xff.txt"));
    assert_eq!(invalid.owned_patterns(&[path]).unwrap().len(), 1);
}

#[test]
fn hostile_files_exceed_a_limit() {
    let error = |file: String| CodeOwners::parse(file.as_bytes()).map(drop);
    assert_eq!(error("a".repeat(MAX_BYTES + 1)), Err(CodeOwnersError::TooLarge));
    assert_eq!(
        error("\n".repeat(MAX_LINES + 1)),
        Err(CodeOwnersError::TooManyLines)
    );
    assert_eq!(error("\n".repeat(MAX_LINES)), Ok(()));
    assert_eq!(
        error("a".repeat(MAX_PATTERN_BYTES + 1)),
        Err(CodeOwnersError::PatternTooLong)
    );
    let section = format!("[{}]", "a".repeat(MAX_PATTERN_BYTES + 1));
    assert_eq!(error(section), Err(CodeOwnersError::PatternTooLong));
    let owners: String = (0..=MAX_OWNERS).map(|number| format!(" @u{number}")).collect();
    assert_eq!(error(format!("a{owners}")), Err(CodeOwnersError::TooManyOwners));
}

#[test]
fn patterns_with_many_wildcards_take_bounded_time() {
    let pattern = format!("*{}", "a".repeat(500));
    let directories = "**/a/".repeat(200);
    let file = format!("{pattern}b @x\n{directories}b @x\n").repeat(200);
    let owners = CodeOwners::parse(file.as_bytes()).unwrap();
    let path = [
        PathSegments::new(&"a".repeat(4_000)),
        PathSegments::new(&"a/".repeat(2_000)),
    ];
    assert_eq!(
        owners.owned_patterns(&path),
        Err(CodeOwnersError::TooManyComparisons)
    );
    let many: String = (0..9_000).map(|number| format!("/src/{number}/ @x\n")).collect();
    let owners = CodeOwners::parse(many.as_bytes()).unwrap();
    let found = owners.owned_patterns(&[PathSegments::new("src/17/a")]).unwrap();
    assert_eq!(found.len(), 1);
}
