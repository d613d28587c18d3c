//! Restriction of this process to its files, by Landlock.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags, path_beneath_rules,
};

use super::Confinement;

/// Version of Landlock whose restrictions are requested. An older kernel enforces those that it knows.
const VERSION: ABI = ABI::V6;

/// Directories with programs and libraries. Data directories of services are not below them.
const SYSTEM_DIRECTORIES: [&str; 17] = [
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/usr/local/libexec",
    "/nix/store",
    "/gnu/store",
];

/// Files that the dynamic linker and the C library read, and shared data of the system.
const SYSTEM_FILES: [&str; 14] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/group",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/usr/share/git-core",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
    "/usr/local/share/git-core",
    "/dev/urandom",
    "/dev/zero",
];

/// Device that every program can read and write.
const NULL_DEVICE: &str = "/dev/null";

/// How well the kernel protects the machine from a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Access to files, the network and other processes is restricted.
    Full,
    /// An older kernel enforces only some of the restrictions.
    Partial,
    /// The kernel has no Landlock, or it is disabled.
    None,
}

impl Protection {
    const ALL: [Self; 3] = [Self::Full, Self::Partial, Self::None];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::None => "none",
        }
    }

    pub(super) fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protection| protection.name().as_bytes() == name)
    }
}

/// Restricts this process and its children to the files of `confinement`, of `program` and of the system. They cannot open TCP
/// ports, or send signals to other processes.
///
/// # Errors
/// If the kernel has Landlock but rejects the restrictions.
pub(super) fn restrict(confinement: &Confinement, program: &Path) -> io::Result<Protection> {
    let handled = AccessFs::from_all(VERSION);
    let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
    let execute = read | AccessFs::Execute;
    let null = read | AccessFs::WriteFile;
    // A program changes the files of a repository, but neither executes them nor creates devices.
    let write = handled & !make_bitflags!(AccessFs::{Execute | MakeChar | MakeBlock | MakeSock | IoctlDev});
    let restricted = || {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(handled)?
            .handle_access(AccessNet::from_all(VERSION))?
            .scope(Scope::from_all(VERSION))?
            .create()?
            .add_rules(rules(&program_directories(program), execute))?
            .add_rules(rules(&SYSTEM_FILES.map(PathBuf::from), read))?
            .add_rules(rules(&[NULL_DEVICE.into()], null))?
            .add_rules(rules(&confinement.executable, execute))?
            .add_rules(rules(&confinement.readable, read))?
            .add_rules(rules(&confinement.writable, write))?
            .restrict_self()
    };
    let status = restricted().map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Protection::Full,
        RulesetStatus::PartiallyEnforced => Protection::Partial,
        RulesetStatus::NotEnforced => Protection::None,
    })
}

/// Returns a rule for each path that exists.
fn rules(
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> impl Iterator<Item = Result<PathBeneath<PathFd>, RulesetError>> {
    path_beneath_rules(paths, access)
}

/// Returns the directories of the system and those of an installation of Git at another place.
fn program_directories(program: &Path) -> Vec<PathBuf> {
    let mut directories = SYSTEM_DIRECTORIES.map(PathBuf::from).to_vec();
    let program = program.canonicalize().unwrap_or_else(|_| program.to_owned());
    if let Some(directory) = program.parent() {
        directories.push(directory.to_owned());
        if let Some(prefix) = directory.parent() {
            directories.extend(["lib/git-core", "libexec/git-core"].map(|name| prefix.join(name)));
        }
    }
    directories
}
