//! Receives a push and runs the program that stores it.
//!
//! The body is received into a [`Spool`]. Usually the program starts when the body is complete, so its slot and
//! its memory never wait for the client. To save time, the program of a large push starts earlier if memory is available. It
//! is an early program: it ends when another program needs its memory, and starts again when the body is complete. No early
//! program is allowed to move a reference.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::commands::RefCommand;
use super::decision::{self, DecisionPipes, HookRules, PushDecider, PushRules};
use super::hooks::{self, InstalledHooks};
use super::{TIME_LIMIT, TransportService};
use crate::memory_budget::MemoryNeed;
use crate::process::{Program, RunningProgram};
use crate::slots::RequestSpace;
use crate::spool::{Body, Excess, IDLE, MAX_DROPPED, Spool, SpoolLimit};
use crate::stream::{self, ByteStream, PushExchange};
use crate::{Error, Repository, Result};

/// Number of bytes by which a stored pack can exceed the pushed pack, because Git adds the bases of its deltas.
const ADDED_BYTES: u64 = 1 << 30;
/// Number of bytes that are stored beyond the maximum size of a pack, so that Git detects and rejects a larger pack.
const EXCESS_BYTES: u64 = 1 << 20;
/// Number of received bytes after which the program may start. For smaller pushes, an early start saves little time.
const EARLY_BYTES: u64 = 4 << 20;

/// A push whose commands were read and whose pack was not yet read.
pub struct OpenPush {
    pub(super) repository: Repository,
    pub(super) commands: Vec<RefCommand>,
    pub(super) options: Vec<String>,
    /// Whether the response consists of packets with sidebands.
    pub(super) sideband: bool,
    /// Number of bytes before the pack.
    pub(super) command_bytes: u64,
    pub(super) body: Body,
    /// Space for the commands.
    pub(super) space: RequestSpace,
}

/// Policy for a push.
#[derive(Debug, Clone, Default)]
pub struct ReceivePolicy {
    /// The rules when the push starts. A push that violates them is rejected without a decision.
    pub rules: PushRules,
    /// Maximum size of the pack in bytes.
    pub max_bytes: Option<u64>,
    /// Text for the pusher after references have moved; can be empty.
    pub message: String,
    /// If true, an update that is no fast-forward but must be one is skipped, and the other commands are executed. The reason
    /// of each such update is the full name of its reference.
    pub skips_diverged: bool,
}

/// A push that was received and is being executed.
pub struct ReceivedPush {
    /// The response to the client. The push continues even if this is dropped.
    pub response: ByteStream,
    /// The pending result of the push.
    pub outcome: PushOutcome,
}

/// Pending result of a push.
pub struct PushOutcome(oneshot::Receiver<Result<Vec<RefCommand>>>);

impl PushOutcome {
    /// Waits for the end of the push and returns the applied commands.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::LimitExceeded`]; then no command was applied.
    pub async fn applied(self) -> Result<Vec<RefCommand>> {
        self.0.await.map_err(|_| Error::Worker)?
    }
}

impl OpenPush {
    /// Returns the requested commands in the client's order.
    #[must_use]
    pub fn commands(&self) -> &[RefCommand] {
        &self.commands
    }

    /// Returns the push options in the client's order.
    #[must_use]
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Receives the pack, and starts to execute the commands if `policy`, Git and the decision allow it. `decider` is called
    /// when Git has the whole pack and has checked it, and before the first reference moves. If the server ends before
    /// `decider` has returned, the hook rejects the push.
    ///
    /// # Errors
    /// [`Error::Protocol`] and [`Error::Timeout`] if the client does not send everything, [`Error::RepositoryMissing`],
    /// [`Error::Busy`] if too many pushes or transfers are running or use too much space or memory,
    /// [`Error::ProcessorTimeUsed`], and failures to install the hooks, without which nothing is executed.
    pub async fn receive(
        self,
        policy: ReceivePolicy,
        protocol: Option<&str>,
        decider: PushDecider,
    ) -> Result<ReceivedPush> {
        // Before the pack is received, which can take hours.
        self.repository.check_processor_time()?;
        let slot = self.repository.push_slot().await?;
        let limit = SpoolLimit {
            bytes: policy.max_bytes.map_or(u64::MAX, |pack| {
                pack.saturating_add(self.command_bytes + EXCESS_BYTES)
            }),
            excess: Excess::Dropped(MAX_DROPPED),
            pause: IDLE,
        };
        let mut spool = Spool::receive(&self.repository, self.body, limit, self.repository.push_space());
        let push = ReceivingPush {
            repository: self.repository,
            commands: self.commands,
            policy,
            protocol,
            decider: Arc::new(decider),
        };
        // Otherwise, a client that sends slowly would use space for as long as it wants.
        let received = tokio::time::timeout(TIME_LIMIT, push.execution(&mut spool));
        let (execution, pack_space) = received.await.map_err(|_| Error::Timeout)??;
        let exchange = PushExchange {
            input: execution.input,
            sideband: self.sideband,
        };
        let (sender, outcome) = oneshot::channel();
        let (answers, in_place, space) = (execution.answers, execution.hooks, self.space);
        let response = stream::push(execution.running, exchange, move |result| {
            drop((slot, space, pack_space, answers));
            // The hook has recorded which commands were applied. The exit code of the program does not matter.
            let applied = in_place.applied();
            let outcome = match (applied, result) {
                (Ok(applied), Err(error))
                    if applied.is_empty() && !matches!(error, Error::Program { .. }) =>
                {
                    Err(error)
                }
                (applied, _) => applied,
            };
            let _ = sender.send(outcome);
        });
        Ok(ReceivedPush {
            response,
            outcome: PushOutcome(outcome),
        })
    }
}

/// A push whose body is being received.
struct ReceivingPush<'a> {
    repository: Repository,
    commands: Vec<RefCommand>,
    policy: ReceivePolicy,
    protocol: Option<&'a str>,
    decider: Arc<PushDecider>,
}

/// The program of a push, and the tasks that serve it.
struct PushExecution {
    running: RunningProgram,
    /// Writes the body to the program.
    input: AbortOnDropHandle<()>,
    /// Answers the hook.
    answers: AbortOnDropHandle<()>,
    hooks: InstalledHooks,
    /// Canceled when the body is complete. The hook receives no answer before.
    complete: CancellationToken,
    /// Canceled when the program stops reading before the end of the body.
    stopped: CancellationToken,
}

/// Reason why the wait for the body of a push with an early program ends.
enum EarlyEnd {
    /// The body is complete, or cannot be received.
    Received(Result<RequestSpace>),
    /// Another program needs the memory.
    MemoryWanted,
    /// The program rejected the push, and does not read the rest.
    Stopped,
}

impl PushExecution {
    /// Ends the program before it has moved a reference. The program ends by itself when its input is closed.
    async fn discard(self) {
        drop((self.input, self.answers));
        self.running.discard().await;
    }
}

impl ReceivingPush<'_> {
    /// Returns the execution of the push once the body is complete, and the space of the body.
    async fn execution(&self, spool: &mut Spool) -> Result<(PushExecution, RequestSpace)> {
        let early = match spool.has_begun(EARLY_BYTES).await {
            true => self.try_start(spool).await?,
            false => None,
        };
        let Some(early) = early else {
            let space = spool.complete().await?;
            return Ok((self.start(spool).await?, space));
        };
        let end = tokio::select! {
            biased;
            space = spool.complete() => EarlyEnd::Received(space),
            () = self.repository.shared().memory.wanted() => EarlyEnd::MemoryWanted,
            () = early.stopped.cancelled() => EarlyEnd::Stopped,
        };
        match end {
            // The hook receives no answer before this, so a program that ended before has moved no reference.
            EarlyEnd::Received(Ok(space)) => {
                early.complete.cancel();
                return Ok((early, space));
            }
            EarlyEnd::Received(Err(error)) => {
                early.discard().await;
                return Err(error);
            }
            EarlyEnd::MemoryWanted => {}
            // The program read a part of the stored bytes. It rejects them again when it is repeated for its message, so the
            // rest is not needed.
            EarlyEnd::Stopped => spool.stop_storing(),
        }
        early.discard().await;
        let space = spool.complete().await?;
        Ok((self.start(spool).await?, space))
    }

    /// Starts the program for a complete body, once a slot and memory are available.
    async fn start(&self, spool: &Spool) -> Result<PushExecution> {
        let (hooks, rules, pipes) = self.prepare().await?;
        let running = self.repository.start_transfer(self.program(&hooks)).await?;
        let execution = self.serve(running, spool, hooks, rules, pipes);
        execution.complete.cancel();
        Ok(execution)
    }

    /// Starts the program for a partly received body, if a slot and memory are available now.
    async fn try_start(&self, spool: &Spool) -> Result<Option<PushExecution>> {
        let (hooks, rules, pipes) = self.prepare().await?;
        let running = self.repository.try_start_push(self.program(&hooks))?;
        Ok(running.map(|running| self.serve(running, spool, hooks, rules, pipes)))
    }

    /// Installs the hooks for one execution of the program.
    async fn prepare(&self) -> Result<(InstalledHooks, HookRules, DecisionPipes)> {
        let rules = HookRules::new(&self.commands, &self.policy.rules);
        let hooks = hooks::install(&self.repository, &rules, &self.policy).await?;
        // Opened before the program starts, so that the hook finds the pipes open while this server runs.
        let pipes = DecisionPipes::open(hooks.push_directory())?;
        Ok((hooks, rules, pipes))
    }

    fn program(&self, hooks: &InstalledHooks) -> Program {
        let program = TransportService::ReceivePack
            .program(self.protocol)
            .config("core.hooksPath", hooks.directory())
            .environment(hooks::PUSH_DIRECTORY, hooks.push_directory())
            .hooks(hooks.directory(), hooks.push_directory())
            .memory(MemoryNeed::Push)
            .flags(&["--stateless-rpc", "."])
            .time_limit(TIME_LIMIT);
        match self.policy.max_bytes {
            Some(limit) => program
                .config("receive.maxInputSize", limit.to_string())
                .file_limit(limit.saturating_add(ADDED_BYTES)),
            None => program,
        }
    }

    /// Starts the tasks that serve a program.
    fn serve(
        &self,
        mut running: RunningProgram,
        spool: &Spool,
        hooks: InstalledHooks,
        rules: HookRules,
        pipes: DecisionPipes,
    ) -> PushExecution {
        let (complete, stopped) = (CancellationToken::new(), CancellationToken::new());
        let feeding = {
            let (reader, stdin, stopped) = (spool.reader(), running.take_stdin(), stopped.clone());
            async move {
                if !reader.feed(stdin).await {
                    stopped.cancel();
                }
            }
        };
        let answers = {
            let (complete, commands) = (complete.clone(), self.commands.clone());
            let (repository, decider) = (self.repository.clone(), Arc::clone(&self.decider));
            async move { decision::answer(&repository, pipes, &commands, rules, &decider, &complete).await }
        };
        PushExecution {
            input: AbortOnDropHandle::new(tokio::spawn(feeding)),
            answers: AbortOnDropHandle::new(tokio::spawn(answers)),
            running,
            hooks,
            complete,
            stopped,
        }
    }
}
