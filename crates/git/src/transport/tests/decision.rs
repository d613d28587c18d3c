//! The decision on a push: the hook waits for it, and only an acceptance lets the refs move.

use std::ops::ControlFlow;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::super::decision::{self, DecisionPipes, HookRules};
use super::super::hooks::{self, InstalledHooks, PUSH_DIRECTORY};
use super::*;

/// Returns the rules of a push that updates `main` from `old` to `new`.
fn commands(old: &str, new: &str) -> Vec<RefCommand> {
    let line = format!("{old} {new} refs/heads/main");
    vec![RefCommand::parse(&line).unwrap()]
}

fn fast_forward_only() -> PushRules {
    PushRules {
        fast_forward_only: vec![("refs/heads/main".to_owned(), "No force.".to_owned())],
        ..PushRules::default()
    }
}

/// Returns the token of a push whose body was received.
fn complete() -> CancellationToken {
    let complete = CancellationToken::new();
    complete.cancel();
    complete
}

/// The hook of a push, without a client.
struct Hook {
    sample: TestRepository,
    installed: InstalledHooks,
}

impl Hook {
    async fn new() -> Self {
        let sample = TestRepository::with_history();
        let rules = HookRules::new(&[], &PushRules::default());
        let installed = hooks::install(&sample.repository, &rules, &ReceivePolicy::default())
            .await
            .unwrap();
        Self { sample, installed }
    }

    fn pipes(&self) -> DecisionPipes {
        DecisionPipes::open(self.installed.push_directory()).unwrap()
    }

    /// Runs the hook and returns whether it accepts the push, and its output.
    async fn run(&self) -> (bool, String) {
        let hook = tokio::process::Command::new(self.installed.directory().join("pre-receive"))
            .env(PUSH_DIRECTORY, self.installed.push_directory())
            .env("GIT_DIR", self.sample.repository.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = hook.wait_with_output().await.unwrap();
        (output.status.success(), stderr(&output))
    }

    /// Runs the hook with a server that answers it.
    async fn decided(&self, commands: Vec<RefCommand>, decider: PushDecider) -> (bool, String) {
        let known = HookRules::new(&[], &PushRules::default());
        let complete = complete();
        let answers = decision::answer(
            &self.sample.repository,
            self.pipes(),
            &commands,
            known,
            &decider,
            &complete,
        );
        tokio::join!(self.run(), answers).0
    }
}

#[tokio::test]
async fn hook_returns_the_decision() {
    let hook = Hook::new().await;
    assert_eq!(hook.decided(Vec::new(), accept()).await, (true, String::new()));
    let refused: PushDecider = Box::new(|_| std::future::ready(Err("No\nmore.".to_owned())).boxed());
    let hook = Hook::new().await;
    assert_eq!(
        hook.decided(Vec::new(), refused).await,
        (false, "No more.\n".to_owned())
    );
    let hook = Hook::new().await;
    let tip = hook.sample.id("main").to_string();
    let rules = PushRules {
        rejected: vec![("refs/heads/main".to_owned(), "Not main.".to_owned())],
        ..PushRules::default()
    };
    let answer = hook.decided(commands(&tip, &tip), same_rules(rules)).await;
    assert_eq!(answer, (false, "Not main.\n".to_owned()));
}

#[tokio::test]
async fn decision_can_require_fast_forwards_and_is_repeated_after_the_check() {
    for (old, new, accepted) in [("main~1", "main", true), ("main", "main~1", false)] {
        let hook = Hook::new().await;
        let (old, new) = (hook.sample.id(old).to_string(), hook.sample.id(new).to_string());
        let calls = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&calls);
        let decider: PushDecider = Box::new(move |_| {
            *counted.lock().unwrap() += 1;
            std::future::ready(Ok(fast_forward_only())).boxed()
        });
        // Opened before the hook starts, as for a push.
        let pipes = hook.pipes();
        // A rejected check ends the hook without a further question.
        let answer = tokio::select! {
            answer = hook.run() => answer,
            () = async {
                let known = HookRules::new(&[], &PushRules::default());
                let repository = &hook.sample.repository;
                decision::answer(repository, pipes, &commands(&old, &new), known, &decider, &complete()).await;
                std::future::pending().await
            } => unreachable!("the answers never end"),
        };
        let text = if accepted { "" } else { "No force.\n" };
        assert_eq!(answer, (accepted, text.to_owned()));
        assert_eq!(*calls.lock().unwrap(), if accepted { 2 } else { 1 });
    }
}

#[tokio::test]
async fn hook_rejects_push_if_the_server_ends_before_or_after_its_question() {
    let stopped = (
        false,
        "The server stopped before it accepted the push. Push again.\n".to_owned(),
    );
    let hook = Hook::new().await;
    drop(hook.pipes());
    assert_eq!(hook.run().await, stopped);

    let hook = Hook::new().await;
    let (asked, question) = oneshot::channel();
    let asked = Mutex::new(Some(asked));
    let decider: PushDecider = Box::new(move |_| {
        asked.lock().unwrap().take().unwrap().send(()).unwrap();
        std::future::pending().boxed()
    });
    let known = HookRules::new(&[], &PushRules::default());
    let (pipes, repository) = (hook.pipes(), hook.sample.repository.clone());
    let server = tokio::spawn(async move {
        decision::answer(&repository, pipes, &[], known, &decider, &complete()).await;
    });
    let killed = async {
        question.await.unwrap();
        server.abort();
    };
    assert_eq!(tokio::join!(hook.run(), killed).0, stopped);
}

#[tokio::test(start_paused = true)]
async fn push_is_rejected_if_the_decision_takes_too_long() {
    let hook = Hook::new().await;
    let decider: PushDecider = Box::new(|_| std::future::pending().boxed());
    let started = tokio::time::Instant::now();
    let (accepted, text) = hook.decided(Vec::new(), decider).await;
    assert!(!accepted && text.contains("could not check the rules"), "{text}");
    assert!(started.elapsed() >= Duration::from_secs(30));
}

#[tokio::test]
async fn refs_move_only_after_the_decision() {
    let sample = TestRepository::with_history();
    let (main, zero) = (sample.id("main"), "0".repeat(40));
    let line = format!("{zero} {main} refs/heads/copy\0report-status");
    let mut body = (packet(&line) + FLUSH).into_bytes();
    body.extend_from_slice(b"PACK\0\0\0\x02\0\0\0\0");
    body.extend(hex::decode("029d08823bd8a8eab510ad6ac75c823cfd3ed31e").unwrap());
    for accepted in [false, true] {
        let (sender, mut questions) = mpsc::unbounded_channel();
        let decider: PushDecider = Box::new(move |_| {
            let (answer, decided) = oneshot::channel();
            sender.send(answer).unwrap();
            async move { decided.await.unwrap() }.boxed()
        });
        let body = Cursor::new(body.clone());
        let push = sample.repository.open_push(body, false).await.unwrap();
        let received = push
            .receive(ReceivePolicy::default(), None, decider)
            .await
            .unwrap();
        let answer = questions.recv().await.unwrap();
        assert!(sample.git(&["branch", "--list", "copy"]).is_empty());
        let decision = match accepted {
            true => Ok(PushRules::default()),
            false => Err("No.".to_owned()),
        };
        answer.send(decision).unwrap();
        let report = received.response.collect(1 << 16).await.unwrap();
        let applied = received.outcome.applied().await.unwrap();
        assert_eq!(
            applied.len(),
            usize::from(accepted),
            "{}",
            String::from_utf8_lossy(&report)
        );
    }
    assert_eq!(sample.id("copy"), main);
}

#[tokio::test]
async fn hook_waits_until_the_body_is_complete() {
    let hook = Hook::new().await;
    let (pipes, complete) = (hook.pipes(), CancellationToken::new());
    let known = HookRules::new(&[], &PushRules::default());
    let decider = accept();
    let repository = &hook.sample.repository;
    let answers = decision::answer(repository, pipes, &[], known, &decider, &complete);
    let mut answers = std::pin::pin!(answers);
    let mut run = std::pin::pin!(hook.run());
    let early = tokio::time::timeout(Duration::from_millis(300), async {
        tokio::select! {
            _ = &mut run => {}
            () = &mut answers => {}
        }
    });
    assert!(
        early.await.is_err(),
        "the hook ended before the body was complete"
    );
    complete.cancel();
    assert_eq!(tokio::join!(run, answers).0, (true, String::new()));
}

/// Returns what a decider that reads the new objects of a push finds out: the number of commits, the paths, and the number of
/// blobs above 2 bytes. The changes of the update are the same paths.
async fn seen(
    objects: &crate::NewObjects,
    (old, new): (crate::Oid, crate::Oid),
) -> Result<(usize, Vec<String>, usize)> {
    let list = objects.list().await?;
    let commits = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&commits);
    let visit = move |_: crate::NewCommit| {
        *counted.lock().unwrap() += 1;
        ControlFlow::<()>::Continue(())
    };
    list.commits(visit).await?;
    let paths: Arc<Mutex<Vec<String>>> = Arc::default();
    let found = Arc::clone(&paths);
    let visit = move |file: crate::NewFile| {
        found.lock().unwrap().push(file.path);
        ControlFlow::<()>::Continue(())
    };
    list.files(visit).await?;
    let blobs = list.blobs_above(2).await?.len();
    let (commits, paths) = (*commits.lock().unwrap(), paths.lock().unwrap().clone());
    assert_eq!(objects.changed_paths(old, new, 1).await?, paths);
    assert_eq!(objects.changed_paths(new, old, 1).await?, paths);
    assert!(objects.changed_paths(old, new, 0).await.is_err());
    Ok((commits, paths, blobs))
}

#[tokio::test]
async fn decider_reads_new_commits_through_the_hook() {
    for exists in [true, false] {
        let hook = Hook::new().await;
        let main = hook.sample.id("main").to_string();
        let commands_of_import = format!(
            "commit refs/heads/new\ncommitter T <t@example.com> 1700000000 +0000\ndata 2\nm\nfrom {main}\n\
             M 100644 inline added\ndata 3\nabc\n"
        );
        hook.sample.import(commands_of_import.as_bytes());
        let new = hook.sample.id("new").to_string();
        hook.sample.git(&["update-ref", "-d", "refs/heads/new"]);
        let target = if exists { new } else { "1".repeat(40) };
        let results: Arc<Mutex<Vec<_>>> = Arc::default();
        let recorded = Arc::clone(&results);
        let update = (
            crate::Oid::from_str(&main).unwrap(),
            crate::Oid::from_str(&target).unwrap(),
        );
        let decider: PushDecider = Box::new(move |objects| {
            let recorded = Arc::clone(&recorded);
            async move {
                let result = seen(&objects, update).await;
                let answer = result
                    .as_ref()
                    .map(|_| PushRules::default())
                    .map_err(ToString::to_string);
                recorded.lock().unwrap().push(result);
                answer
            }
            .boxed()
        });
        let (accepted, text) = hook.decided(commands(&main, &target), decider).await;
        let result = results.lock().unwrap().pop().unwrap();
        match exists {
            true => {
                assert_eq!((accepted, text.as_str()), (true, ""));
                assert_eq!(result.unwrap(), (1, vec!["added".to_owned()], 1));
            }
            // A program that fails is not an empty list.
            false => {
                assert!(
                    !accepted && text.contains("too large, or take too long to read"),
                    "{text}"
                );
                assert!(result.is_err());
            }
        }
    }
}

#[tokio::test]
async fn hook_has_the_limits_of_the_server() {
    let hook = Hook::new().await;
    let script = fs::read_to_string(hook.installed.directory().join("pre-receive")).unwrap();
    let commits = format!(" {} ", crate::new_commits::COMMIT_LIMIT_ARGUMENT);
    let blocks = format!("ulimit -f {} ", crate::new_commits::MAX_OUTPUT_BYTES / 512);
    assert!(script.contains(&commits) && script.contains(&blocks));
    assert_eq!(
        commits.trim(),
        format!("--max-count={}", crate::MAX_NEW_COMMITS + 1)
    );
}
