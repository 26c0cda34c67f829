//! Who asks: this node's copy of the directory of users, and how a credential is proved by it.
//!
//! ```text
//!   core of lane zero ─Effect::Directory─▶ Keeper thread ─▶ hive-access.json, synced ─▶ AccessHub ─Event::Directory─▶ all cores
//!   a request's `Authorization`, certificate or socket ─▶ credentials.rs ─▶ Caller ─▶ the core decides
//! ```
//!
//! ```text
//!   file.rs         the durable copy               credentials.rs   from a request's head to a Caller
//!   passwords.rs    argon2, a few at a time        root.rs          the world's first token
//!   socket.rs       the way in when all tokens are lost
//!   sealing.rs      what secrets of S3 keys are sealed with   s3_keys.rs   whose S3 key signed a request
//!   oidc.rs         whom OIDC issuers vouch for               sessions.rs  temporary S3 credentials for them
//!   standing.rs     whether who was let in still is
//! ```
//!
//! Always: what a core decides by is on disk first, unless the disk refuses, which is said; a copy that nobody has confirmed for
//! `access.stale_limit_hours` lets nobody in (`credentials::tests::an_old_copy_lets_nobody_in`).
//! Not here: decisions (base-access), how the copy is brought up to date (core-access).

pub mod credentials;
pub mod file;
pub mod oidc;
pub mod passwords;
pub mod root;
pub mod s3_keys;
pub mod sealing;
mod sessions;
pub mod socket;
mod standing;

use crate::mailbox::Sender;
use crate::monitor::unix_ms;
use arc_swap::ArcSwap;
use base_access::Directory;
use core_node::api::Event;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// A node that hears of the directory has news every second or so: after this long it says that it has none.
const SILENCE_WARNING: Duration = Duration::from_secs(60);
/// A copy that has not changed is written again so often, to note that it was confirmed.
const CONFIRMED_EVERY_MS: u64 = 600_000;
/// A newer copy is asked for at most so often: requests with tokens that nobody knows must not make work.
const WANTED_EVERY_MS: u64 = 200;
/// How long a request with an unknown token waits for a newer copy.
pub const UNKNOWN_TOKEN_WAIT: Duration = Duration::from_millis(400);

/// What all threads know of who may come in.
pub struct AccessHub {
    required: bool,
    stale_limit_ms: u64,
    directory: ArcSwap<Directory>,
    /// When the copy was last known to be the newest, Unix milliseconds.
    confirmed_ms: AtomicU64,
    wanted_ms: AtomicU64,
    epoch: watch::Sender<u64>,
    to_keeper: SyncSender<Arc<Directory>>,
    lane_zero: Option<Sender<Event>>,
    pub passwords: passwords::Passwords,
    pub sealing: sealing::Sealing,
    pub issuers: oidc::Issuers,
}

/// The thread that keeps the copy on disk.
pub struct Keeper {
    hub: Arc<AccessHub>,
    data: PathBuf,
    world: String,
    lanes: Vec<Sender<Event>>,
    copies: Receiver<Arc<Directory>>,
    written_ms: u64,
}

impl AccessHub {
    /// With what is on disk; the warning says why that is nothing, where a file is there.
    pub fn open(
        access: &crate::config::AccessSection,
        data: PathBuf,
        world: &str,
        lanes: &[Sender<Event>],
        sealing: sealing::Sealing,
    ) -> (Arc<AccessHub>, Keeper, Option<String>) {
        let (kept, warning) = if access.required { file::read(&data, world) } else { (file::Kept::default(), None) };
        let (issuers, of_issuers) = oidc::Issuers::open(&access.oidc, &data);
        let warning = match (warning, of_issuers) {
            (Some(warning), Some(other)) => Some(format!("{warning}; {other}")),
            (warning, other) => warning.or(other),
        };
        let directory = Arc::new(kept.directory);
        let (to_keeper, copies) = std::sync::mpsc::sync_channel(1);
        let hub = Arc::new(AccessHub {
            required: access.required,
            stale_limit_ms: access.stale_limit_hours.saturating_mul(3_600_000),
            confirmed_ms: AtomicU64::new(kept.confirmed_ms),
            wanted_ms: AtomicU64::new(0),
            epoch: watch::Sender::new(directory.epoch()),
            directory: ArcSwap::new(directory.clone()),
            to_keeper,
            lane_zero: lanes.first().cloned(),
            passwords: passwords::Passwords::default(),
            sealing,
            issuers,
        });
        if directory.epoch() > 0 {
            for lane in lanes {
                // A fresh mailbox has room.
                let _ = lane.try_send(Event::Directory { directory: directory.clone() });
            }
        }
        let (hub_of_keeper, lanes, world) = (hub.clone(), lanes.to_vec(), world.to_string());
        let keeper = Keeper { hub: hub_of_keeper, data, world, lanes, copies, written_ms: kept.confirmed_ms };
        (hub, keeper, warning)
    }

    /// Whether doors ask who somebody is.
    pub fn required(&self) -> bool {
        self.required
    }

    /// How long a node decides by what it knew, without news of the world.
    pub fn stale_limit(&self) -> Duration {
        Duration::from_millis(self.stale_limit_ms)
    }

    /// The copy that counts.
    pub fn directory(&self) -> Arc<Directory> {
        self.directory.load_full()
    }

    /// When it was last known to be the newest; zero: never.
    pub fn confirmed_ms(&self) -> u64 {
        self.confirmed_ms.load(Ordering::Relaxed)
    }

    /// The core has the newest copy. Where the keeper is busy, the next sync says so again.
    pub fn keep(&self, directory: Arc<Directory>) -> Result<(), String> {
        match self.to_keeper.try_send(directory) {
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Disconnected(_)) => {
                Err("the thread that keeps the access directory has ended; restart the node".into())
            }
        }
    }

    /// How long ago the copy was known to be the newest; `None`: nobody is asked who they are, or it never was.
    pub fn age(&self, now_ms: u64) -> Option<Duration> {
        let confirmed_ms = self.confirmed_ms();
        (self.required && confirmed_ms > 0).then(|| Duration::from_millis(now_ms.saturating_sub(confirmed_ms)))
    }

    /// What `/ready` calls degraded: revocations do not reach this node.
    pub fn reasons(&self, now_ms: u64) -> Option<String> {
        let age = self.age(now_ms).filter(|age| *age > SILENCE_WARNING)?.as_secs();
        let limit_hours = self.stale_limit_ms / 3_600_000;
        Some(format!(
            "this node last heard from the world's directory of users {age} s ago: it takes tokens that were revoked since, and after {limit_hours} h it lets nobody in; mend the world's clusters or this node's network (`hive ctl status`)"
        ))
    }

    /// Whether the copy is too old to decide by.
    fn is_stale(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.confirmed_ms()) > self.stale_limit_ms
    }

    /// Asks for a newer copy and waits a moment for it. Whether there is one.
    async fn newer(&self) -> bool {
        let mut epoch = self.epoch.subscribe();
        epoch.mark_unchanged();
        let now = unix_ms();
        let last = self.wanted_ms.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= WANTED_EVERY_MS || now < last;
        if due && self.wanted_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            if let Some(lane) = &self.lane_zero {
                let _ = lane.try_send(Event::DirectoryWanted);
            }
        }
        matches!(tokio::time::timeout(UNKNOWN_TOKEN_WAIT, epoch.changed()).await, Ok(Ok(())))
    }

    /// The id of the user of that name; zero: there is none, as far as is known after a look for a newer copy.
    pub async fn id_of(&self, user: &str) -> u64 {
        if self.directory().user(user).is_none() {
            self.newer().await;
        }
        self.directory().user(user).map_or(0, |row| row.id)
    }

    fn learn(&self, directory: Arc<Directory>, now_ms: u64) {
        let epoch = directory.epoch();
        self.confirmed_ms.store(now_ms, Ordering::Relaxed);
        self.directory.store(directory);
        self.epoch.send_if_modified(|known| std::mem::replace(known, epoch) != epoch);
    }
}

impl Keeper {
    /// What it keeps the copy for.
    pub fn hub(&self) -> Arc<AccessHub> {
        self.hub.clone()
    }

    /// Keeps what comes until `stop` is true.
    pub fn run(mut self, stop: watch::Receiver<bool>) {
        const LOOK: Duration = Duration::from_millis(200);
        while !*stop.borrow() {
            match self.copies.recv_timeout(LOOK) {
                Ok(directory) => self.keep(directory),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn keep(&mut self, directory: Arc<Directory>) {
        let now_ms = unix_ms();
        let own = self.hub.directory();
        let changed = own.epoch() != directory.epoch() || own.rows().len() != directory.rows().len();
        if changed || now_ms.saturating_sub(self.written_ms) >= CONFIRMED_EVERY_MS {
            self.written_ms = now_ms;
            if let Err(error) = file::write(&self.data, &self.world, &directory, now_ms) {
                tracing::error!(%error, file = file::FILE, "the access directory cannot be written: after a restart this node decides by an older one until it hears from the world; make room on the disk");
            }
        }
        if !changed {
            return self.hub.confirmed_ms.store(now_ms, Ordering::Relaxed);
        }
        for lane in &self.lanes {
            // A lane that has ended needs none.
            let _ = lane.send_blocking(Event::Directory { directory: directory.clone() });
        }
        self.report_unopened(&directory);
        self.hub.learn(directory, now_ms);
    }

    /// Says once for each change how many S3 keys this node cannot check signatures by.
    fn report_unopened(&self, directory: &Directory) {
        let shut = |row: &base_access::Row| matches!(&row.body, Some(base_access::RowBody::S3Key(key)) if !self.hub.sealing.opens(&key.sealed_by));
        let count = directory.rows().values().filter(|row| shut(row)).count();
        if count > 0 {
            tracing::error!(
                keys = count,
                "S3 keys of users are sealed by a key that this node does not have: it refuses requests that they signed; add the world's sealing keys to access.sealing_key_file (or {}) and restart",
                sealing::VARIABLE
            );
        }
    }
}
