//! Makes a backup: pins an instant, reads all keys at it, writes parts, and last the manifest. A stopped run continues.
//!
//! ```text
//!   journal: none ──▶ pin, begin ─┐
//!            there ─▶ pin again ──┴ same instant ─▶ resume after the last good part ─▶ parts ─▶ pin again ─▶ manifest ─▶ unpin
//!                         └ another, or gone ─▶ begin a new backup
//! ```
//!
//! Always: all parts of a versioned keyspace's backup are of one stamp, of one cluster in one life. Held by:
//! `backup_is_of_one_instant_while_writes_continue`, `a_new_backup_is_made_after_the_pin_is_gone`.
//! Not here: plain keyspaces have no instant; each part says when it was read.

use crate::depot::Depot;
use crate::entry::Entry;
use crate::increment::Since;
use crate::journal::{self, Beginning, Journal};
use crate::keyspace::{Keyspace, PLAIN, VERSIONED};
use crate::manifest::{self, id_text, Base, Instant, Manifest, FORMAT};
use crate::pace::{wall_ms, Pace, Progress};
use crate::pages::{Query, Rows};
use crate::part::{PartBuilder, PART_BYTES};
use crate::sign::{random, Signer};
use crate::store::{ask, is_refused, Store};
use crate::verify::{verify, Chain};
use crate::BackupError;
use hive_client::ErrorCode;
use serde_json::{json, Value};
use std::time::Duration;

/// How often a pin is renewed: four times within the time that it is kept.
const RENEWALS: u32 = 4;

/// What a pin is refused with if its instant is not there any more. Any other refusal may pass, and loses nothing.
const GONE: [ErrorCode; 3] = [ErrorCode::StampCompacted, ErrorCode::StampInFuture, ErrorCode::Conflict];

/// What is backed up, and how.
pub struct CreateOptions {
    /// The keyspace.
    pub keyspace: String,
    /// The directory that becomes the backup.
    pub dir: Depot,
    /// The backup that an increment continues; its own bases lie beside it.
    pub base: Option<Depot>,
    /// Bytes of keys and values a second; none: as fast as it can be.
    pub rate: Option<u64>,
    /// How long the instant stays readable after the run was stopped.
    pub keep: Duration,
    /// A part ends after so many bytes; none: 8 MiB.
    pub part_bytes: Option<usize>,
}

/// A finished backup.
pub struct Created {
    /// What was signed.
    pub manifest: Manifest,
    /// Parts that an earlier run had finished.
    pub parts_kept: usize,
    /// Why an earlier run was not continued.
    pub not_continued: Option<String>,
}

/// Makes a backup, or finishes one.
pub async fn create<S: Store>(
    store: &S,
    signer: &Signer,
    options: &CreateOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Created, BackupError> {
    let keyspace = Keyspace::describe(store, &options.keyspace).await?;
    if ![VERSIONED, PLAIN].contains(&keyspace.kind.as_str()) {
        return Err(BackupError::Kind { keyspace: keyspace.name, kind: keyspace.kind });
    }
    if options.base.is_some() && keyspace.kind != VERSIONED {
        return Err(BackupError::NoIncrement { keyspace: keyspace.name, kind: keyspace.kind });
    }
    let status = ask(store, json!({"action": "Status"})).await?;
    let world = status["world"].as_str().ok_or(BackupError::Answer { action: "Status".into(), field: "world" })?;
    let base = match &options.base {
        Some(dir) => Some(verify(dir, &[], &signer.trusted(), &mut |_| {}).await?),
        None => None,
    };
    let left = prepare(&options.dir).await?;
    let (journal, not_continued) = match left {
        None => (begin(store, options, world, keyspace, base.as_ref()).await?, None),
        Some((beginning, parts)) => match check(store, options, world, &keyspace, base.as_ref(), &beginning).await? {
            None => (Journal::resume(&options.dir, beginning, parts).await?, None),
            Some(why) => (begin(store, options, world, keyspace, base.as_ref()).await?, Some(why)),
        },
    };
    let parts_kept = journal.parts.len();
    let keeper = Keeper::start(store, &journal.beginning, options.keep);
    let journal = read_parts(store, options, journal, base.as_ref(), progress).await?;
    let manifest = finish(store, signer, options, journal).await?;
    drop(keeper);
    Ok(Created { manifest, parts_kept, not_continued })
}

/// Makes the directory, or finds what a stopped run left there. Anything else in it is not ours to touch.
async fn prepare(dir: &Depot) -> Result<Option<(Beginning, Vec<crate::part::PartRecord>)>, BackupError> {
    let occupied = |what: &str| BackupError::Occupied { dir: dir.shown(), what: what.into() };
    dir.prepare()?;
    if dir.has(manifest::FILE).await? {
        return Err(occupied("a whole backup"));
    }
    if let Some(other) = dir.names().await?.iter().find(|name| !journal::is_ours(name)) {
        return Err(occupied(&format!("{other}, which is no part of a backup")));
    }
    journal::read(dir).await
}

async fn begin<S: Store>(
    store: &S,
    options: &CreateOptions,
    world: &str,
    keyspace: Keyspace,
    base: Option<&Chain>,
) -> Result<Journal, BackupError> {
    let pin = if keyspace.kind == VERSIONED { u64::from_le_bytes(random()) >> 1 | 1 } else { 0 };
    let instant = match pin {
        0 => None,
        _ => Some(hold(store, &keyspace.name, pin, 0, options.keep).await?),
    };
    let base = base.map(|base| check_base(base, world, &keyspace, instant.as_ref())).transpose()?;
    let backup = id_text(&random());
    let started_ms = wall_ms();
    let beginning = Beginning { format: FORMAT, backup, world: world.into(), keyspace, instant, pin, base, started_ms };
    Journal::begin(&options.dir, beginning).await
}

/// An increment continues only a backup of the same cluster's same life.
fn check_base(base: &Chain, world: &str, keyspace: &Keyspace, instant: Option<&Instant>) -> Result<Base, BackupError> {
    let (top, found) = (base.top(), base.manifest());
    let unfit = |why: String| BackupError::UnfitBase { dir: top.dir.shown(), why };
    let (Some(was), Some(is)) = (found.instant.as_ref(), instant) else {
        return Err(unfit("it is of no instant".into()));
    };
    if (found.world.as_str(), found.keyspace.name.as_str()) != (world, keyspace.name.as_str()) {
        return Err(unfit(format!("it is of keyspace {} in world {}", found.keyspace.name, found.world)));
    }
    if (was.id, was.generation) != (is.id, is.generation) || was.stamp > is.stamp {
        return Err(unfit(format!("{} has begun a new life since", is.cluster)));
    }
    Ok(Base { backup: found.backup.clone(), stamp: was.stamp, manifest_sha256: top.sha256.clone() })
}

/// Whether what is left can be continued; if not, why.
async fn check<S: Store>(
    store: &S,
    options: &CreateOptions,
    world: &str,
    keyspace: &Keyspace,
    base: Option<&Chain>,
    left: &Beginning,
) -> Result<Option<String>, BackupError> {
    if left.format != FORMAT {
        return Ok(Some(format!("the unfinished backup has format {}", left.format)));
    }
    if (left.world.as_str(), &left.keyspace.name, &left.keyspace.kind) != (world, &keyspace.name, &keyspace.kind) {
        let what = format!("an unfinished backup of keyspace {} in world {}", left.keyspace.name, left.world);
        return Err(BackupError::Occupied { dir: options.dir.shown(), what });
    }
    let base_is = base.map(|base| base.top().sha256.clone());
    if left.base.as_ref().map(|base| base.manifest_sha256.clone()) != base_is {
        return Ok(Some("the unfinished backup had another base".into()));
    }
    let Some(instant) = &left.instant else { return Ok(None) };
    match hold(store, &keyspace.name, left.pin, instant.stamp, options.keep).await {
        Ok(held) => Ok(lost(instant, &held)),
        Err(error) if GONE.iter().any(|code| is_refused(&error, *code)) => {
            Ok(Some(format!("stamp {} cannot be pinned again ({error})", instant.stamp)))
        }
        Err(error) => Err(error),
    }
}

/// Whether a pin is of another instant than before.
fn lost(before: &Instant, now: &Instant) -> Option<String> {
    let same = (before.stamp, before.id, before.generation) == (now.stamp, now.id, now.generation);
    let life = |instant: &Instant| format!("cluster {} generation {}", instant.id, instant.generation);
    (!same).then(|| format!("stamp {} was of {}, and now it is of {}", before.stamp, life(before), life(now)))
}

/// Pins a stamp (0: the newest), or renews that.
async fn hold<S: Store>(
    store: &S,
    keyspace: &str,
    pin: u64,
    stamp: u64,
    keep: Duration,
) -> Result<Instant, BackupError> {
    let keep_ms = keep.as_millis() as u64;
    let body = json!({"action": "KvPin", "keyspace": keyspace, "pin": pin, "stamp": stamp, "keep_ms": keep_ms});
    let answer = ask(store, body).await?;
    let number =
        |value: &Value, field| value[field].as_u64().ok_or(BackupError::Answer { action: "KvPin".into(), field });
    Ok(Instant {
        stamp: number(&answer, "stamp")?,
        time_ms: number(&answer, "until_ms")?.saturating_sub(keep_ms),
        cluster: answer["at"]["cluster"].as_str().unwrap_or_default().into(),
        id: number(&answer["at"], "id")?,
        generation: number(&answer["at"], "generation")?,
    })
}

/// Renews the pin while the backup is made. A pin that is lost makes the next page fail, and the last check.
struct Keeper(Option<tokio::task::JoinHandle<()>>);

impl Keeper {
    fn start<S: Store>(store: &S, beginning: &Beginning, keep: Duration) -> Keeper {
        let Some(instant) = beginning.instant.clone() else { return Keeper(None) };
        let (store, keyspace, pin) = (store.clone(), beginning.keyspace.name.clone(), beginning.pin);
        Keeper(Some(tokio::spawn(async move {
            loop {
                tokio::time::sleep(keep / RENEWALS).await;
                let _ = hold(&store, &keyspace, pin, instant.stamp, keep).await;
            }
        })))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Where entries come from.
enum Source<S> {
    All(Rows<S>),
    Since(Box<Since<S>>),
}

impl<S: Store> Source<S> {
    fn new(store: &S, journal: &Journal, base: Option<&Chain>) -> Source<S> {
        let beginning = &journal.beginning;
        let query = Query {
            keyspace: beginning.keyspace.name.clone(),
            at: beginning.instant.as_ref().map(|instant| instant.stamp),
            pin: beginning.pin,
            after: journal.parts.last().and_then(|part| part.last.bytes()),
            ..Query::default()
        };
        match (base, &beginning.base) {
            (Some(chain), Some(base)) => Source::Since(Box::new(Since::new(store, &query, &chain.layers, base.stamp))),
            _ => Source::All(Rows::new(store, query)),
        }
    }

    async fn next(&mut self) -> Result<Option<Entry>, BackupError> {
        match self {
            Source::All(rows) => rows.next().await,
            Source::Since(since) => since.next().await,
        }
    }

    fn window(&self) -> (u64, u64) {
        match self {
            Source::All(rows) => rows.window(),
            Source::Since(since) => since.window(),
        }
    }
}

async fn read_parts<S: Store>(
    store: &S,
    options: &CreateOptions,
    mut journal: Journal,
    base: Option<&Chain>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Journal, BackupError> {
    let backup = manifest::id_of(&journal.beginning.backup).expect("made or checked here");
    let part_bytes = options.part_bytes.unwrap_or(PART_BYTES).min(PART_BYTES);
    let mut done = Progress {
        entries: journal.parts.iter().map(|part| u64::from(part.entries)).sum(),
        bytes: journal.parts.iter().map(|part| part.bytes).sum(),
        parts: journal.parts.len() as u64,
        of: if base.is_none() { keys_of(store, &journal.beginning).await } else { 0 },
    };
    let mut source = Source::new(store, &journal, base);
    let mut pace = Pace::new(options.rate);
    let mut part = PartBuilder::default();
    let mut times = (u64::MAX, 0);
    while let Some(entry) = source.next().await? {
        times = (times.0.min(source.window().0), times.1.max(source.window().1));
        pace.wait(entry.bytes()).await;
        part.push(&entry);
        (done.entries, done.bytes) = (done.entries + 1, done.bytes + entry.bytes());
        if part.raw_bytes() >= part_bytes {
            write_part(&options.dir, &backup, &mut journal, std::mem::take(&mut part), times).await?;
            (done.parts, times) = (done.parts + 1, (u64::MAX, 0));
            progress(done);
        }
    }
    if !part.is_empty() {
        write_part(&options.dir, &backup, &mut journal, part, times).await?;
        done.parts += 1;
    }
    progress(done);
    Ok(journal)
}

async fn write_part(
    dir: &Depot,
    backup: &crate::part::BackupId,
    journal: &mut Journal,
    part: PartBuilder,
    times: (u64, u64),
) -> Result<(), BackupError> {
    let number = journal.parts.len() as u32 + 1;
    journal.add(part.finish(dir, backup, number, times).await?).await
}

/// How many keys there are, for progress; 0 where nobody knows.
async fn keys_of<S: Store>(store: &S, beginning: &Beginning) -> u64 {
    if beginning.instant.is_none() {
        return 0;
    }
    let described = ask(store, json!({"action": "KvDescribe", "keyspace": beginning.keyspace.name})).await;
    described.ok().and_then(|answer| answer["keys"].as_u64()).unwrap_or(0)
}

/// The instant still stands: the backup becomes whole, and the pin goes.
async fn finish<S: Store>(
    store: &S,
    signer: &Signer,
    options: &CreateOptions,
    journal: Journal,
) -> Result<Manifest, BackupError> {
    let beginning = &journal.beginning;
    if let Some(instant) = &beginning.instant {
        let held = hold(store, &beginning.keyspace.name, beginning.pin, instant.stamp, options.keep).await?;
        if let Some(why) = lost(instant, &held) {
            return Err(BackupError::InstantLost { why });
        }
    }
    let manifest = Manifest {
        format: FORMAT,
        backup: beginning.backup.clone(),
        world: beginning.world.clone(),
        keyspace: beginning.keyspace.clone(),
        instant: beginning.instant.clone(),
        started_ms: beginning.started_ms,
        finished_ms: wall_ms(),
        base: beginning.base.clone(),
        entries: journal.parts.iter().map(|part| u64::from(part.entries)).sum(),
        deletions: journal.parts.iter().map(|part| u64::from(part.deletions)).sum(),
        bytes: journal.parts.iter().map(|part| part.bytes).sum(),
        parts: journal.parts.clone(),
        signer: signer.fingerprint(),
    };
    manifest.write(&options.dir, signer).await?;
    let (keyspace, pin) = (beginning.keyspace.name.clone(), beginning.pin);
    journal.end().await?;
    if pin != 0 {
        // A pin that stays ends by itself.
        let _ = ask(store, json!({"action": "KvUnpin", "keyspace": keyspace, "pin": pin})).await;
    }
    Ok(manifest)
}
