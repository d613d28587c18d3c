//! The states of a test server: the state that a reset restores, and the changes of the current one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Datelike, TimeDelta, Utc};
use storage::clock;
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::directory::WorkDirectory;
use super::faults::Faults;
use super::instance::{Instance, InstanceOptions};
use super::snapshot::{Checked, Snapshot};
use super::switch::Switch;
use super::{Error, template};
use crate::worker;

/// Time for requests that were in progress during a reset to finish on the former state.
const REQUEST_DRAIN: Duration = Duration::from_secs(60);

/// The state that a reset restores.
#[derive(Debug, Clone)]
pub(super) enum StartState {
    /// An empty instance.
    Empty,
    /// A saved state.
    Snapshot(PathBuf),
}

/// The states of a test server.
pub(super) struct States {
    options: Arc<InstanceOptions>,
    switch: Switch,
    /// Changes of the state run one after the other. `None` when the server stops.
    reset: Mutex<Option<ResetState>>,
    password: SyncMutex<String>,
    /// Discarded states that are being removed.
    discarded: TaskTracker,
}

/// Source of the time at which a reset freezes the clock.
#[derive(Debug, Clone, Copy)]
enum ClockSource {
    /// The option of the start, or else the snapshot.
    StartOption,
    /// The snapshot, or else the option of the start.
    Snapshot,
    /// The snapshot that this server saved. If the clock was not frozen then, it runs.
    Saved,
}

/// What a reset restores.
struct ResetState {
    work: WorkDirectory,
    start: StartState,
    /// The template of an empty instance, once it was checked.
    template: Option<Snapshot>,
    /// Time of the option `--freeze-time`.
    freeze_time: Option<DateTime<Utc>>,
    clock: ClockSource,
    /// Number of states so far, for the names of their directories.
    count: u64,
    /// The state of the next reset, which is opened in the background after a reset.
    next: Option<NextState>,
}

/// A state that is opened in the background.
struct NextState {
    snapshot: Snapshot,
    task: JoinHandle<Result<Instance, Error>>,
}

impl ResetState {
    /// Returns a path in the temporary directory that no other state uses.
    fn new_path(&mut self, kind: &str) -> PathBuf {
        self.count += 1;
        self.work.path().join(format!("{kind}-{}", self.count))
    }

    /// Returns the snapshot that a reset restores.
    async fn snapshot(&mut self, options: &InstanceOptions) -> Result<Snapshot, Error> {
        match &self.start {
            StartState::Empty => {
                if let Some(template) = self.template.take() {
                    let check = move || template.is_current().then_some(template);
                    self.template = tokio::task::spawn_blocking(check).await?;
                }
                if let Some(template) = &self.template {
                    return Ok(template.clone());
                }
                let template = template::find_or_create(self.work.path(), options).await?;
                self.template = Some(template.clone());
                Ok(template)
            }
            StartState::Snapshot(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || Snapshot::read(&path, Checked::No)).await?
            }
        }
    }

    /// Returns the time at which the clock is frozen in a snapshot that is restored.
    fn time_of(&self, snapshot: &Snapshot) -> Option<DateTime<Utc>> {
        match self.clock {
            ClockSource::StartOption => self.freeze_time.or(snapshot.frozen_at),
            ClockSource::Snapshot => snapshot.frozen_at.or(self.freeze_time),
            ClockSource::Saved => snapshot.frozen_at,
        }
    }

    /// Returns a new copy of a snapshot: the one that was opened in the background, if it has the same snapshot.
    async fn open(&mut self, snapshot: &Snapshot, options: &Arc<InstanceOptions>) -> Result<Instance, Error> {
        if let Some(next) = self.next.take() {
            let is_same = next.snapshot == *snapshot;
            match next.task.await? {
                Ok(instance) if is_same => return Ok(instance),
                Ok(instance) => discard(&instance).await,
                Err(error) => tracing::info!(%error, "failed to prepare a reset"),
            }
        }
        open_copy(snapshot.clone(), self.new_path("data"), Arc::clone(options)).await
    }

    /// Opens the state of the next reset in the background.
    fn prepare(&mut self, snapshot: Snapshot, options: &Arc<InstanceOptions>) {
        let data = self.new_path("data");
        let task = tokio::spawn(open_copy(snapshot.clone(), data, Arc::clone(options)));
        self.next = Some(NextState { snapshot, task });
    }
}

/// Opens a copy of a snapshot in a directory that does not exist.
async fn open_copy(
    snapshot: Snapshot,
    data: PathBuf,
    options: Arc<InstanceOptions>,
) -> Result<Instance, Error> {
    let target = data.clone();
    let copied = tokio::task::spawn_blocking(move || snapshot.copy_data(&target)).await?;
    let opened = match copied {
        Ok(()) => Instance::open(&data, &options).await,
        Err(error) => Err(error),
    };
    if opened.is_err() {
        let _ = tokio::fs::remove_dir_all(data).await;
    }
    opened
}

/// Closes a state after its requests are finished, and removes its data.
async fn discard(instance: &Instance) {
    instance.requests.close();
    if tokio::time::timeout(REQUEST_DRAIN, instance.requests.wait())
        .await
        .is_err()
    {
        tracing::warn!("discarded a state with requests in progress");
    }
    instance.close().await;
    if let Err(error) = tokio::fs::remove_dir_all(instance.data()).await {
        tracing::debug!(%error, "failed to remove the data of a former state");
    }
}

impl States {
    /// Opens the first state.
    ///
    /// # Errors
    /// [`Error`].
    pub(super) async fn open(
        work: WorkDirectory,
        options: Arc<InstanceOptions>,
        start: StartState,
        freeze_time: Option<DateTime<Utc>>,
    ) -> Result<Self, Error> {
        let mut reset = ResetState {
            work,
            start,
            template: None,
            freeze_time,
            clock: ClockSource::StartOption,
            count: 0,
            next: None,
        };
        let snapshot = reset.snapshot(&options).await?;
        clock::freeze(reset.time_of(&snapshot));
        let instance = reset.open(&snapshot, &options).await?;
        instance.start_jobs().await;
        Ok(Self {
            switch: Switch::new(instance),
            options,
            reset: Mutex::new(Some(reset)),
            password: SyncMutex::new(snapshot.password),
            discarded: TaskTracker::new(),
        })
    }

    /// Returns the switch that calls the current state.
    pub(super) fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Returns the faults of all states.
    pub(super) fn faults(&self) -> &Faults {
        &self.options.faults
    }

    /// Returns the password of the administrator.
    pub(super) fn password(&self) -> String {
        self.password
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Restores the state at the start: the data, the clock and the faults. With a path, restores this snapshot, now and in
    /// later resets.
    ///
    /// # Errors
    /// [`Error`]. Then the current state remains.
    pub(super) async fn reset(&self, snapshot: Option<PathBuf>) -> Result<(), Error> {
        let mut guard = self.reset.lock().await;
        let reset = present(&mut guard)?;
        let former = (reset.start.clone(), reset.clock);
        if let Some(path) = snapshot {
            reset.start = StartState::Snapshot(std::path::absolute(&path).map_err(Error::io(path))?);
            reset.clock = ClockSource::Snapshot;
        }
        let done = self.restore(reset).await;
        if done.is_err() {
            (reset.start, reset.clock) = former;
        }
        done
    }

    async fn restore(&self, reset: &mut ResetState) -> Result<(), Error> {
        // Before the pause, so that an error has no effect, and requests wait only for the others.
        let snapshot = reset.snapshot(&self.options).await?;
        let instance = reset.open(&snapshot, &self.options).await?;
        let (pause, _) = self.switch.pause().await;
        clock::freeze(reset.time_of(&snapshot));
        self.faults().reset();
        let former = self.switch.replace(&pause, instance);
        self.switch.current().start_jobs().await;
        drop(pause);
        self.password
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&snapshot.password);
        self.discarded.spawn(async move { discard(&former).await });
        // Most servers that are reset once are reset again.
        reset.prepare(snapshot, &self.options);
        Ok(())
    }

    /// Saves the current state, and restores it in later resets. Without a path, it is saved in the temporary directory.
    /// Returns the path.
    ///
    /// # Errors
    /// [`Error::RequestsInProgress`], [`Error::Exists`], and other errors. Then the current state remains.
    /// [`Error::StateLost`] if it cannot be opened again. Then the state of a reset replaces it.
    pub(super) async fn save(&self, path: Option<PathBuf>) -> Result<PathBuf, Error> {
        let mut guard = self.reset.lock().await;
        let reset = present(&mut guard)?;
        let target = match path {
            Some(path) => std::path::absolute(&path).map_err(Error::io(path))?,
            None => reset.new_path("snapshot"),
        };
        let (pause, finished) = self.switch.pause().await;
        if !finished {
            return Err(Error::RequestsInProgress);
        }
        let former = self.switch.current();
        // Nothing changes the closed directory, and the last connection moves the log of the database into its file.
        former.close().await;
        let (data, password, path) = (former.data().to_owned(), self.password(), target.clone());
        let save = move || Snapshot::save(&data, &path, &password, clock::frozen(), Checked::No);
        let saved = tokio::task::spawn_blocking(save).await;
        let saved = saved.map_err(Error::from).and_then(|saved| saved);
        // The same directory is opened again, also after an error.
        match Instance::open(former.data(), &self.options).await {
            Ok(instance) => {
                self.switch.replace(&pause, instance);
                self.switch.current().start_jobs().await;
            }
            // All requests of a closed state would fail.
            Err(cause) => {
                self.restore(reset).await?;
                return Err(Error::StateLost(Box::new(cause)));
            }
        }
        drop(pause);
        saved?;
        reset.clock = ClockSource::Saved;
        reset.start = StartState::Snapshot(target.clone());
        Ok(target)
    }

    /// Freezes the clock at a time, or lets it run.
    ///
    /// # Errors
    /// [`Error::TimeOutOfRange`], or a database error.
    pub(super) async fn set_clock(&self, time: Option<DateTime<Utc>>) -> Result<(), Error> {
        let mut guard = self.reset.lock().await;
        present(&mut guard)?;
        if time.is_some_and(|time| !(1970..=9999).contains(&time.year())) {
            return Err(Error::TimeOutOfRange);
        }
        self.change_clock(time).await
    }

    /// Advances the frozen clock.
    ///
    /// # Errors
    /// [`Error::ClockRuns`], [`Error::TimeOutOfRange`], or a database error.
    pub(super) async fn advance_clock(&self, seconds: u32) -> Result<(), Error> {
        let mut guard = self.reset.lock().await;
        present(&mut guard)?;
        let time = clock::frozen().ok_or(Error::ClockRuns)?;
        let time = time.checked_add_signed(TimeDelta::seconds(i64::from(seconds)));
        let time = time
            .filter(|time| time.year() <= 9999)
            .ok_or(Error::TimeOutOfRange)?;
        self.change_clock(Some(time)).await
    }

    async fn change_clock(&self, time: Option<DateTime<Utc>>) -> Result<(), Error> {
        clock::freeze(time);
        let backend = &self.switch.current().backend;
        // Cached responses may depend on the time.
        backend.database.invalidate();
        Ok(worker::run_due(backend).await?)
    }

    /// Closes all states and removes the temporary directory.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be removed.
    pub(super) async fn close(&self) -> Result<(), Error> {
        let mut reset = self.reset.lock().await.take();
        if let Some(next) = reset.as_mut().and_then(|reset| reset.next.take())
            && let Ok(Ok(instance)) = next.task.await
        {
            discard(&instance).await;
        }
        self.switch.current().close().await;
        self.discarded.close();
        self.discarded.wait().await;
        match reset {
            Some(reset) => tokio::task::spawn_blocking(move || reset.work.remove()).await?,
            None => Ok(()),
        }
    }
}

fn present<'guard>(
    guard: &'guard mut MutexGuard<'_, Option<ResetState>>,
) -> Result<&'guard mut ResetState, Error> {
    guard.as_mut().ok_or(Error::Stopping)
}
