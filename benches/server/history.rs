//! A realistic repository: 24,000 commits of sixty authors over six years, and 3,000 files that grow, move and
//! are removed. Some files change often and some never again; some branches are merged and some are not.
//!
//! It is the same in every run: written once by `git fast-import`, then packed.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::Result;
use crate::git::{self, Repository};
use crate::random::Random;

/// Total number of commits. The newest ones have a page at offset 20,000.
const COMMITS: usize = 24_000;
/// Number of files at the end.
const FILES: usize = 3_000;
/// Number of files in the first commit.
const FIRST_FILES: usize = 300;
/// Number of authors.
const AUTHORS: usize = 60;
/// Time of the first commit, in seconds since the epoch.
const BEGINNING: usize = 1_500_000_000;
/// Seconds between commits: 24,000 in six years.
const PACE: usize = 7_900;
/// Must change with every change of the generated history, so that no run uses an old one.
const EDITION: &str = "2";
/// Path of a file of exactly [`PAGE_SIZE`] bytes.
pub const PAGE: &str = "docs/manual/page.md";
/// The size of [`PAGE`], in bytes.
const PAGE_SIZE: usize = 4096;

/// Returns the repository below `directory`, created if it does not exist.
pub fn repository(directory: &Path) -> Result<Repository> {
    let path = directory.join(format!("history-{EDITION}.git"));
    let repository = Repository { path: path.clone() };
    if path.is_dir() {
        return Ok(repository);
    }
    let unfinished = Repository {
        path: PathBuf::from(format!("{}.new", path.display())),
    };
    git::remove(&unfinished.path)?;
    let directory = unfinished.path.to_string_lossy();
    git::run(
        git::command(&["init", "-q", "--bare", "-b", "main", &directory]),
        b"",
    )?;
    write(&unfinished)?;
    let packing = ["repack", "-a", "-d", "-f", "-q", "--depth=50", "--window=10"];
    git::run(unfinished.command(&packing), b"")?;
    std::fs::rename(&unfinished.path, &path)?;
    Ok(repository)
}

/// Streams the history into the repository.
fn write(repository: &Repository) -> Result<()> {
    let mut importing = repository
        .command(&["fast-import", "--quiet", "--depth=50"])
        .stdin(Stdio::piped())
        .spawn()?;
    let stdin = importing.stdin.take().ok_or("fast-import takes no input")?;
    let mut history = History::new(BufWriter::with_capacity(1 << 20, stdin));
    history.first_commit()?;
    while history.commits < COMMITS {
        history.step()?;
    }
    history.output.flush()?;
    drop(history);
    if importing.wait()?.success() {
        Ok(())
    } else {
        Err("git fast-import failed".into())
    }
}

/// The current state of a file.
struct File {
    path: String,
    lines: Vec<String>,
    /// The only topic branch that may change it.
    held: Option<usize>,
}

impl File {
    fn content(&self) -> String {
        let mut text = self.lines.concat();
        if self.path == PAGE {
            text.truncate(PAGE_SIZE - 1);
            text.push('\n');
        }
        text
    }
}

/// A topic branch. No other branch changes its files, so its merge has no conflicts.
struct Topic {
    number: usize,
    /// The mark of its head; at first the mark of its start point on `main`.
    tip: usize,
    has_commits: bool,
    remaining: usize,
    files: Vec<usize>,
}

struct History<W> {
    output: W,
    random: Random,
    files: Vec<File>,
    made_files: usize,
    topics: Vec<Topic>,
    made_topics: usize,
    commits: usize,
    main: usize,
}

impl<W: Write> History<W> {
    fn new(output: W) -> Self {
        Self {
            output,
            random: Random::new(20_240_217),
            files: Vec::new(),
            made_files: 0,
            topics: Vec::new(),
            made_topics: 0,
            commits: 0,
            main: 0,
        }
    }

    fn first_commit(&mut self) -> Result<()> {
        self.head("main", "Begin")?;
        let lines = (0..120).map(|_| line(&mut self.random)).collect();
        self.files.push(File {
            path: PAGE.to_owned(),
            lines,
            held: None,
        });
        self.modify(0)?;
        for _ in 0..FIRST_FILES {
            self.add_file()?;
        }
        self.main = self.commits;
        Ok(())
    }

    /// Writes one more commit, on `main` or on a topic branch.
    fn step(&mut self) -> Result<()> {
        if self.topics.len() < 4 && self.random.once_in(30) {
            self.open_topic();
        }
        if !self.topics.is_empty() && self.random.once_in(3) {
            let index = self.random.below(self.topics.len());
            let topic = self.topics.swap_remove(index);
            return match topic.remaining {
                0 => self.close_topic(topic),
                _ => self.commit_to_topic(topic),
            };
        }
        let words = line(&mut self.random);
        self.head("main", words.trim())?;
        match self.random.below(1000) {
            0..=140 if self.files.len() < FILES => self.add_file()?,
            141..=160 => self.rename_file()?,
            161..=166 => self.delete_file()?,
            167 => self.rename_directory()?,
            _ => {}
        }
        for _ in 0..=self.random.skewed(5) {
            if let Some(index) = self.pick() {
                self.edit(index)?;
            }
        }
        if self.commits.is_multiple_of(1500) {
            self.edit(0)?;
        }
        self.main = self.commits;
        if self.commits.is_multiple_of(120) {
            self.tag()?;
        }
        Ok(())
    }

    /// Writes the beginning of a commit; its parent is the head of the branch.
    fn head(&mut self, branch: &str, subject: &str) -> Result<()> {
        self.commits += 1;
        let author = self.random.skewed(AUTHORS);
        let time = BEGINNING + self.commits * PACE;
        let message = format!(
            "{subject}\n\nChange {} of many; it has a body of a line or two.\n",
            self.commits
        );
        write!(
            self.output,
            "commit refs/heads/{branch}\nmark :{}\nauthor Writer {author} <writer{author}@example.com> {time} +0100\n\
             committer Writer {author} <writer{author}@example.com> {time} +0100\ndata {}\n{message}\n",
            self.commits,
            message.len(),
        )?;
        Ok(())
    }

    fn modify(&mut self, index: usize) -> Result<()> {
        if let Some(file) = self.files.get(index) {
            let content = file.content();
            write!(
                self.output,
                "M 100644 inline {}\ndata {}\n{content}\n",
                file.path,
                content.len()
            )?;
        }
        Ok(())
    }

    /// Picks a file that no topic branch has reserved; never the page, which must not change.
    fn pick(&mut self) -> Option<usize> {
        let index = self.random.skewed(self.files.len()).max(1);
        self.files
            .get(index)
            .is_some_and(|file| file.held.is_none())
            .then_some(index)
    }

    fn edit(&mut self, index: usize) -> Result<()> {
        let random = &mut self.random;
        if let Some(file) = self.files.get_mut(index) {
            for _ in 0..=random.below(3) {
                let location = random.below(file.lines.len());
                match random.below(10) {
                    0..=3 => file.lines.insert(location, line(random)),
                    4 if file.lines.len() > 20 => {
                        file.lines.remove(location);
                    }
                    _ => {
                        if let Some(old) = file.lines.get_mut(location) {
                            *old = line(random);
                        }
                    }
                }
            }
        }
        self.modify(index)
    }

    fn add_file(&mut self) -> Result<()> {
        self.made_files += 1;
        let path = self.new_path();
        let length = 10 + self.random.skewed(300);
        let lines = (0..length).map(|_| line(&mut self.random)).collect();
        self.files.push(File {
            path,
            lines,
            held: None,
        });
        self.modify(self.files.len() - 1)
    }

    /// Returns an unused path, two to five directories deep.
    fn new_path(&mut self) -> String {
        let mut path = format!("src/area{}", self.random.skewed(24));
        for _ in 0..self.random.below(4) {
            path.push_str(&format!("/part{}", self.random.skewed(6)));
        }
        path.push_str(&format!("/file{}-{}.rs", self.made_files, self.commits));
        path
    }

    fn rename_file(&mut self) -> Result<()> {
        let Some(index) = self.pick() else { return Ok(()) };
        let to = self.new_path();
        if let Some(file) = self.files.get_mut(index) {
            writeln!(self.output, "R {} {to}", file.path)?;
            file.path = to;
        }
        self.edit(index)
    }

    fn delete_file(&mut self) -> Result<()> {
        if let Some(index) = self.pick()
            && self.files.len() > FIRST_FILES
            // Topics refer to files by index, and the index of the last file is about to change.
            && self.files.last().is_some_and(|last| last.held.is_none())
        {
            let deleted = self.files.swap_remove(index);
            writeln!(self.output, "D {}", deleted.path)?;
        }
        Ok(())
    }

    /// Renames a directory with all its files.
    fn rename_directory(&mut self) -> Result<()> {
        let from = format!("src/area{}/", self.random.below(24));
        let to = format!("src/area{}/moved{}/", self.random.below(24), self.commits);
        let held = |file: &File| file.path.starts_with(&from) && file.held.is_some();
        if self.files.iter().any(held) {
            return Ok(());
        }
        for file in &mut self.files {
            if let Some(rest) = file.path.strip_prefix(&from) {
                let path = format!("{to}{rest}");
                writeln!(self.output, "R {} {path}", file.path)?;
                file.path = path;
            }
        }
        Ok(())
    }

    fn open_topic(&mut self) {
        self.made_topics += 1;
        let number = self.made_topics;
        let mut files = Vec::new();
        for _ in 0..3 + self.random.below(6) {
            if let Some(index) = self.pick()
                && let Some(file) = self.files.get_mut(index)
            {
                file.held = Some(number);
                files.push(index);
            }
        }
        self.topics.push(Topic {
            number,
            tip: self.main,
            has_commits: false,
            remaining: 2 + self.random.below(8),
            files,
        });
    }

    fn commit_to_topic(&mut self, mut topic: Topic) -> Result<()> {
        let words = line(&mut self.random);
        self.head(&format!("topic-{}", topic.number), words.trim())?;
        if !topic.has_commits {
            writeln!(self.output, "from :{}", topic.tip)?;
        }
        let chosen = self.random.below(topic.files.len());
        if let Some(index) = topic.files.get(chosen) {
            self.edit(*index)?;
        }
        topic.tip = self.commits;
        topic.has_commits = true;
        topic.remaining -= 1;
        self.topics.push(topic);
        Ok(())
    }

    /// Merges a topic into `main`, or abandons it: one in twenty is never merged.
    fn close_topic(&mut self, topic: Topic) -> Result<()> {
        let name = format!("topic-{}", topic.number);
        let forgotten = topic.number.is_multiple_of(20);
        if !forgotten {
            self.head("main", &format!("Merge branch '{name}'"))?;
            writeln!(self.output, "merge :{}", topic.tip)?;
        }
        for index in topic.files {
            if !forgotten {
                self.modify(index)?;
            }
            if let Some(file) = self.files.get_mut(index) {
                file.held = None;
            }
        }
        if !forgotten {
            self.main = self.commits;
            write!(
                self.output,
                "\nreset refs/heads/{name}\nfrom {}\n\n",
                "0".repeat(40)
            )?;
        }
        Ok(())
    }

    fn tag(&mut self) -> Result<()> {
        let (number, time) = (self.commits / 120, BEGINNING + self.commits * PACE);
        let message = format!("Release {number}\n");
        write!(
            self.output,
            "tag v{number}\nfrom :{}\ntagger Writer 0 <writer0@example.com> {time} +0100\ndata {}\n{message}\n",
            self.main,
            message.len()
        )?;
        Ok(())
    }
}

/// Returns a line of a few words.
fn line(random: &mut Random) -> String {
    const WORDS: [&str; 32] = [
        "let", "value", "of", "the", "branch", "return", "index", "when", "reader", "commit", "none",
        "first", "match", "length", "buffer", "write", "error", "while", "path", "table", "until", "result",
        "count", "open", "state", "node", "walk", "page", "token", "limit", "begin", "field",
    ];
    let mut line = " ".repeat(4 * random.below(4));
    for _ in 0..3 + random.below(8) {
        line.push_str(WORDS.get(random.below(WORDS.len())).unwrap_or(&"word"));
        line.push(' ');
    }
    line.push_str(&format!("{:x}\n", random.next() & 0xffff));
    line
}
