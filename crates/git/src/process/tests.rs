//! Tests of running programs.

use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use super::*;
use crate::test_repository::TestRepository;
use crate::testing::{Fixture, until};

/// Returns whether a process still runs, rather than being gone or a zombie.
fn works(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn dropped_program_is_killed_with_its_children() {
    let sample = TestRepository::empty();
    let hook = sample.repository.path().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nsleep 600 &\nwait\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = Program::new("hook").flags(&["run", "pre-receive"]);
    let running = sample.repository.start(program).await.unwrap();
    let leader = running.child.id().unwrap().to_string();
    // Git, the shell and the child of the shell.
    until(|| members_of(&leader).len() >= 3).await;
    let group = members_of(&leader);
    drop(running);
    until(|| !group.iter().any(|pid| works(pid))).await;
}

#[tokio::test]
async fn program_over_time_limit_times_out() {
    let sample = TestRepository::empty();
    let program = || {
        Program::new("cat-file")
            .flag("--batch")
            .time_limit(Duration::from_millis(50))
    };
    // The program waits for input that never comes.
    let running = sample.repository.start(program()).await.unwrap();
    let answer = running.within(std::future::pending::<Result<()>>()).await;
    assert!(matches!(answer, Err(Error::Timeout)), "{answer:?}");
    let mut running = sample.repository.start(program()).await.unwrap();
    let held_open = running.take_stdin();
    assert!(matches!(running.finish().await, Err(Error::Timeout)));
    drop(held_open);
}

#[tokio::test]
async fn background_program_has_low_priority() {
    let sample = TestRepository::empty();
    let program = Program::new("cat-file").flag("--batch").in_background();
    let running = sample.repository.start(program).await.unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", running.child.id().unwrap())).unwrap();
    // Niceness is the nineteenth field; the second, in parentheses, may contain spaces.
    let niceness = stat.rsplit(") ").next().unwrap().split(' ').nth(16);
    assert_eq!(niceness, Some(BACKGROUND_NICENESS.to_string().as_str()), "{stat}");
}

/// Returns the processes of a group.
fn members_of(group: &str) -> Vec<String> {
    let mut members = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().into_string().unwrap_or_default();
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Fields after the name: state, parent, group.
        if stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(2)) == Some(group) {
            members.push(pid);
        }
    }
    members
}

#[tokio::test]
async fn program_input_and_output_are_exact_and_limited() {
    let sample = TestRepository::with_history();
    let log = || Program::new("log").flag("--format=%H").id(sample.id("main"));
    let output = sample.repository.run(log()).await.unwrap().stdout;
    assert_eq!(
        String::from_utf8(output.clone()).unwrap(),
        sample.git(&["log", "--format=%H", "main"])
    );
    assert!(
        sample
            .repository
            .run(log().output_limit(output.len()))
            .await
            .is_ok()
    );
    let answer = sample.repository.run(log().output_limit(output.len() - 1)).await;
    assert!(matches!(answer.err(), Some(Error::LimitExceeded(_))));
    let large = vec![b'x'; 3 << 20];
    let hash = Program::new("hash-object").flag("--stdin").input(large.clone());
    let id = sample.repository.run(hash).await.unwrap().stdout;
    let expected = Oid::hash_object(git2::ObjectType::Blob, &large).unwrap();
    assert_eq!(String::from_utf8(id).unwrap().trim(), expected.to_string());
}

#[tokio::test]
async fn failed_program_returns_stderr_and_exit_status() {
    let sample = TestRepository::empty();
    let answer = sample
        .repository
        .run(Program::new("log").id(Oid::ZERO_SHA1))
        .await;
    let Some(Error::Program {
        command: "log",
        stderr,
    }) = answer.err()
    else {
        panic!("no failure")
    };
    assert!(
        stderr.contains("bad object") && stderr.contains("128"),
        "{stderr}"
    );
    let accepted = sample
        .repository
        .run(Program::new("log").id(Oid::ZERO_SHA1).accept(&[128]))
        .await
        .unwrap();
    assert_eq!(accepted.code, 128);
    assert!(accepted.stderr.contains("bad object"));
}

#[tokio::test]
async fn missing_object_is_not_reported_as_a_limit() {
    let fixture = Fixture::new("main").await;
    let missing = "1".repeat(40);
    let entry = format!("100644 blob {missing}\tfile\n");
    let tree = fixture.git_stdin(&["mktree", "--missing"], entry.as_bytes());
    let empty = fixture.git_stdin(&["mktree"], b"");
    let program = [&empty, &tree]
        .into_iter()
        .fold(Program::new("diff-tree").flag("-p"), |program, tree| {
            program.id(Oid::from_str(tree.trim()).unwrap())
        });
    let answer = fixture.repository.run(program).await;
    let Some(Error::Program { stderr, .. }) = answer.err() else {
        panic!("another error")
    };
    assert!(stderr.contains(&format!("unable to read {missing}")), "{stderr}");
    assert_eq!(
        confinement::unreadable_object(&stderr).unwrap().to_string(),
        missing
    );
    for other in ["fatal: unable to read tree", "unable to write 1", ""] {
        assert_eq!(confinement::unreadable_object(other), None);
    }
}

#[tokio::test]
async fn system_configuration_is_ignored() {
    let sample = TestRepository::empty();
    let program = Program::new("config").flags(&["--list", "--show-scope"]);
    let listed = String::from_utf8(sample.repository.run(program).await.unwrap().stdout).unwrap();
    assert!(
        listed
            .lines()
            .all(|line| line.starts_with("local") || line.starts_with("command")),
        "{listed}"
    );
    let absent = sample.store.repository(&crate::RepositoryId::of_project(404));
    let answer = absent.run(Program::new("version")).await;
    assert!(matches!(answer.err(), Some(Error::RepositoryMissing)));
}

/// Processor time of a client that can start programs while it has used none.
#[derive(Debug, Default)]
struct Charged(Mutex<Duration>);

impl ProcessorBudget for Charged {
    fn wait(&self) -> Option<Duration> {
        let used = *self.0.lock().unwrap();
        (used > Duration::ZERO).then_some(used)
    }

    fn charge(&self, used: Duration) {
        *self.0.lock().unwrap() += used;
    }
}

#[tokio::test]
async fn programs_are_charged_and_refused_without_processor_time() {
    let sample = TestRepository::with_history();
    let client = |charged: &Arc<Charged>| {
        let budget = Arc::clone(charged) as Arc<dyn ProcessorBudget>;
        sample.repository.clone().with_processor_budget(Some(budget))
    };
    let log = || Program::new("log").id(sample.id("main"));
    let (ended, stopped) = (Arc::<Charged>::default(), Arc::<Charged>::default());
    client(&ended).run(log()).await.unwrap();
    let refused = client(&ended).run(log()).await.err();
    let Some(Error::ProcessorTimeUsed(wait)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(Some(wait), ended.wait());
    // Work of the server itself, and other clients, are not affected. A program that is stopped is charged, too.
    sample.repository.run(log()).await.unwrap();
    let waiting = Program::new("cat-file").flag("--batch");
    let running = client(&stopped).start(waiting).await.unwrap();
    let schedule = format!("/proc/{}/schedstat", running.child.id().unwrap());
    until(|| std::fs::read_to_string(&schedule).is_ok_and(|text| !text.starts_with("0 "))).await;
    drop(running);
    assert!(stopped.wait().is_some());
}
