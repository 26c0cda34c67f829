//! `hive backup`: what edge-backup does, with words and progress for people and machines.
//!
//! By design: progress goes to standard error, as a bar on a terminal, as JSON lines with `--json`, else as a line now and then; the
//! result goes to standard output. Not here: how a backup is made (edge-backup).

use crate::arguments::{BackupCommand, BackupCreate, BackupRestore, Levels, SignKey, Trust};
use crate::calendar::second;
use crate::failure::Failure;
use crate::output::{cell, client, failed, seconds, table};
use edge_backup::{
    create, list, restore, verify, BackupError, Chain, CreateOptions, Created, Depot, Listed, Manifest, Place,
    Progress, RestoreOptions, Restored, Signer, State, Trusted,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{json, Value};
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often progress is shown: on a terminal, and elsewhere.
const BAR_PAUSE: Duration = Duration::from_millis(100);
const LINE_PAUSE: Duration = Duration::from_secs(5);
/// Reading, decoding and writing beside each other.
const THREADS: usize = 3;
const MEGA: f64 = 1e6;

/// Makes, lists, verifies and restores.
pub fn run(command: BackupCommand) -> Result<(), Failure> {
    match command {
        BackupCommand::Create(arguments) => on_threads(make(arguments)),
        BackupCommand::List { dir, trust, json } => on_threads(async move { show_all(&dir, &trust, json).await }),
        BackupCommand::Verify { dir, base, trust, json } => {
            on_threads(async move { check(&dir, &base, &trust, json).await })
        }
        BackupCommand::Restore(arguments) => on_threads(put_back(arguments)),
        BackupCommand::Key { key } => {
            print!("{}", signer(&key)?.public_pem());
            Ok(())
        }
    }
}

/// Decoding JSON takes longer than reading it, so pages are decoded beside the rest.
fn on_threads<F: std::future::Future<Output = Result<(), Failure>>>(command: F) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    runtime.map_err(|error| Failure::refused(format!("cannot start: {error}")))?.block_on(command)
}

async fn make(arguments: BackupCreate) -> Result<(), Failure> {
    let json = arguments.world.json;
    let client = client(&arguments.world, &Levels::default())?;
    let signer = signer(&arguments.key)?;
    let options = CreateOptions {
        keyspace: arguments.keyspace,
        dir: depot(&arguments.dir, json)?,
        base: arguments.base.map(|base| depot(&base, json)).transpose()?,
        rate: arguments.rate.map(bytes_of),
        keep: Duration::from_secs(u64::from(arguments.keep) * 60),
        part_bytes: None,
    };
    let (start, mut shown) = (Instant::now(), Shown::new("backed up", json));
    let made = create(&client, &signer, &options, &mut |progress| shown.show(progress)).await;
    shown.finish();
    let made = made.map_err(|error| failure(json, error))?;
    if let Some(why) = &made.not_continued {
        eprintln!("hive: an unfinished backup was not continued, and a new one was made: {why}");
    }
    say_made(&options.dir.shown(), &made, start.elapsed(), json);
    Ok(())
}

fn say_made(dir: &str, made: &Created, took: Duration, json: bool) {
    let manifest = &made.manifest;
    if json {
        let mut value = summary(dir, manifest);
        value["ok"] = true.into();
        value["parts_kept"] = made.parts_kept.into();
        value["not_continued"] = made.not_continued.clone().into();
        value["seconds"] = took.as_secs_f64().into();
        println!("{value}");
        return;
    }
    let rate = manifest.bytes as f64 / MEGA / took.as_secs_f64().max(1e-6);
    let kept = match made.parts_kept {
        0 => String::new(),
        kept => format!(", {kept} of them from an earlier run"),
    };
    println!(
        "{}: {} keys ({} bytes) in {} parts{kept}, in {}, {rate:.0} MB/s",
        dir,
        manifest.entries,
        manifest.bytes,
        manifest.parts.len(),
        seconds(took)
    );
    println!("{}", of_when(manifest));
}

/// Of which moment a backup is, in words.
fn of_when(manifest: &Manifest) -> String {
    match (&manifest.instant, &manifest.base) {
        (Some(instant), None) => format!("keyspace {} at stamp {}", manifest.keyspace.name, instant.stamp),
        (Some(instant), Some(base)) => format!(
            "keyspace {} at stamp {}: changes since stamp {} ({} keys deleted); restoring needs backup {}",
            manifest.keyspace.name, instant.stamp, base.stamp, manifest.deletions, base.backup
        ),
        (None, _) => format!(
            "keyspace {} is plain: there is no one instant; each part is of when it was read, {} to {}",
            manifest.keyspace.name,
            second(manifest.started_ms),
            second(manifest.finished_ms)
        ),
    }
}

async fn show_all(dir: &str, trust: &Trust, json: bool) -> Result<(), Failure> {
    let found = list(&depot(dir, json)?, &trusted(trust)?).await.map_err(|error| failure(json, error))?;
    if json {
        println!("{}", json!({"ok": true, "backups": found.iter().map(listed).collect::<Vec<_>>()}));
        return Ok(());
    }
    let mut out = table(["BACKUP", "STATE", "KEYSPACE", "STAMP", "MADE", "KEYS", "BYTES", "CONTINUES"]);
    for backup in &found {
        let value = listed(backup);
        let made = backup.manifest.as_ref().map_or("-".into(), |manifest| second(manifest.finished_ms));
        out.add_row([
            backup.dir.clone(),
            cell(&value["state"]),
            cell(&value["keyspace"]),
            cell(&value["stamp"]),
            made,
            cell(&value["entries"]),
            cell(&value["bytes"]),
            cell(&value["base"]),
        ]);
    }
    println!("{out}");
    for backup in &found {
        if let State::Refused(why) = &backup.state {
            eprintln!("{}: {why}", backup.dir);
        }
    }
    Ok(())
}

fn listed(backup: &Listed) -> Value {
    let mut value = match &backup.manifest {
        Some(manifest) => summary(&backup.dir, manifest),
        None => json!({"dir": backup.dir}),
    };
    match &backup.state {
        State::Whole => value["state"] = "whole".into(),
        State::Refused(why) => {
            value["state"] = "refused".into();
            value["why"] = why.clone().into();
        }
        State::Unfinished { keyspace, parts } => {
            value["state"] = "unfinished".into();
            value["keyspace"] = keyspace.clone().into();
            value["parts"] = (*parts).into();
        }
    }
    value
}

/// What machines learn of a manifest; all of it is in the file.
fn summary(dir: &str, manifest: &Manifest) -> Value {
    json!({
        "dir": dir, "backup": manifest.backup, "world": manifest.world,
        "keyspace": manifest.keyspace.name, "kind": manifest.keyspace.kind,
        "stamp": manifest.instant.as_ref().map(|instant| instant.stamp),
        "base": manifest.base.as_ref().map(|base| base.backup.clone()), "entries": manifest.entries,
        "deletions": manifest.deletions, "bytes": manifest.bytes, "parts": manifest.parts.len(),
        "started_ms": manifest.started_ms, "finished_ms": manifest.finished_ms, "signer": manifest.signer,
    })
}

async fn check(dir: &str, base: &[String], trust: &Trust, json: bool) -> Result<(), Failure> {
    let start = Instant::now();
    let chain = verified(dir, base, trust, json).await?;
    let manifest = chain.manifest();
    if json {
        let mut value = summary(dir, manifest);
        value["ok"] = true.into();
        value["chain"] = chain.count().into();
        value["seconds"] = start.elapsed().as_secs_f64().into();
        println!("{value}");
        return Ok(());
    }
    let others = match chain.count() {
        1 => String::new(),
        count => format!(", with {} that it stands on", count - 1),
    };
    println!("{dir} is whole{others}: {} parts, {} keys", manifest.parts.len(), manifest.entries);
    println!("{}", of_when(manifest));
    println!("signed by {}", manifest.signer);
    Ok(())
}

async fn verified(dir: &str, base: &[String], trust: &Trust, json: bool) -> Result<Chain, Failure> {
    let bases = base.iter().map(|base| depot(base, json)).collect::<Result<Vec<_>, _>>()?;
    let mut shown = Shown::new("verified", json);
    let chain = verify(&depot(dir, json)?, &bases, &trusted(trust)?, &mut |progress| shown.show(progress)).await;
    shown.finish();
    chain.map_err(|error| failure(json, error))
}

async fn put_back(arguments: BackupRestore) -> Result<(), Failure> {
    let json = arguments.world.json;
    let client = client(&arguments.world, &Levels::default())?;
    let chain = verified(&arguments.dir, &arguments.base, &arguments.trust, json).await?;
    let place = place(&arguments, &chain)?;
    let options = RestoreOptions {
        place,
        prefix: arguments.prefix.into(),
        rate: arguments.rate.map(bytes_of),
        leased: arguments.leased,
    };
    let (start, mut shown) = (Instant::now(), Shown::new("restored", json));
    let restored = restore(&client, &chain, &options, &mut |progress| shown.show(progress)).await;
    shown.finish();
    say_restored(&restored.map_err(|error| failure(json, error))?, start.elapsed(), json);
    Ok(())
}

fn place(arguments: &BackupRestore, chain: &Chain) -> Result<Place, Failure> {
    if let Some(name) = &arguments.beside {
        return Ok(Place::Beside { name: name.clone(), rule: arguments.rule.clone(), resume: arguments.resume });
    }
    let named = arguments.in_place.clone().filter(|name| !name.is_empty());
    let name = named.unwrap_or_else(|| chain.manifest().keyspace.name.clone());
    confirm(arguments.yes, &name)?;
    Ok(Place::InPlace { name })
}

/// What is there will be overwritten: somebody says so.
fn confirm(yes: bool, name: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let message =
            format!("keyspace {name} would be made what the backup holds; later writes go; say so with --yes");
        return Err(Failure::usage(message));
    }
    eprint!("keyspace {name} will be made what the backup holds; later writes go. Type its name to continue: ");
    let mut typed = String::new();
    match stdin.lock().read_line(&mut typed).is_ok() && typed.trim() == name {
        true => Ok(()),
        false => Err(Failure::usage(format!("keyspace {name} is left as it is"))),
    }
}

fn say_restored(restored: &Restored, took: Duration, json: bool) {
    if json {
        let value = json!({
            "ok": true, "keyspace": restored.keyspace, "written": restored.written, "unchanged": restored.unchanged,
            "deleted": restored.deleted, "extra": restored.extra, "leased": restored.leased, "bytes": restored.bytes,
            "stamp_before": restored.stamp_before, "seconds": took.as_secs_f64(),
        });
        println!("{value}");
        return;
    }
    let rate = restored.bytes as f64 / MEGA / took.as_secs_f64().max(1e-6);
    println!(
        "keyspace {}: {} keys written ({} bytes), {} were right, {} deleted, in {}, {rate:.0} MB/s",
        restored.keyspace,
        restored.written,
        restored.bytes,
        restored.unchanged,
        restored.deleted,
        seconds(took)
    );
    if restored.leased > 0 {
        println!("{} keys with a lease were left out; --leased restores them as keys without one", restored.leased);
    }
    if restored.extra > 0 {
        println!("{} keys are there that the backup does not have", restored.extra);
    }
}

/// A directory, or a URL.
fn depot(place: &str, json: bool) -> Result<Depot, Failure> {
    Depot::open(place).map_err(|error| failure(json, error))
}

/// The signing key, made where it is absent.
fn signer(key: &SignKey) -> Result<Signer, Failure> {
    let path = key_path(key)?;
    let (signer, made) = Signer::open_or_make(&path).map_err(|error| failure(false, error))?;
    if made {
        eprintln!("made the signing key {}; keep a copy of its public key (hive backup key)", path.display());
    }
    Ok(signer)
}

fn key_path(key: &SignKey) -> Result<PathBuf, Failure> {
    if let Some(path) = &key.sign_key {
        return Ok(path.clone());
    }
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    let config =
        config.ok_or_else(|| Failure::usage("there is no HOME for the signing key; name it with --sign-key"))?;
    Ok(config.join("hive/backup.key"))
}

/// The own key if it is there, and those that are named.
fn trusted(trust: &Trust) -> Result<Trusted, Failure> {
    let own = key_path(&trust.own).ok().filter(|path| path.exists());
    let mut all = Trusted::default();
    for path in own.iter().chain(&trust.trust) {
        all = all.and(Trusted::from_file(path).map_err(|error| failure(false, error))?);
    }
    Ok(all)
}

fn failure(json: bool, error: BackupError) -> Failure {
    match error {
        BackupError::Client(error) => failed(json, error),
        other => {
            if json {
                println!("{}", json!({"ok": false, "error": {"message": other.to_string()}}));
            }
            Failure { code: other.exit_code(), message: other.to_string() }
        }
    }
}

fn bytes_of(megabytes: u32) -> u64 {
    u64::from(megabytes) * 1_000_000
}

/// A bar on a terminal, JSON lines for machines, else a line now and then; all on standard error.
struct Shown {
    what: &'static str,
    json: bool,
    bar: Option<ProgressBar>,
    start: Instant,
    shown: Instant,
}

impl Shown {
    fn new(what: &'static str, json: bool) -> Shown {
        let bar = (std::io::stderr().is_terminal() && !json).then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("{bar:40} {pos}/{len} keys {msg} eta {eta}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Shown { what, json, bar, start: Instant::now(), shown: Instant::now() }
    }

    fn show(&mut self, progress: Progress) {
        if self.shown.elapsed() < if self.bar.is_some() { BAR_PAUSE } else { LINE_PAUSE } {
            return;
        }
        self.shown = Instant::now();
        let rate = progress.bytes as f64 / MEGA / self.start.elapsed().as_secs_f64().max(1e-6);
        if let Some(bar) = &self.bar {
            bar.set_length(progress.of.max(progress.entries));
            bar.set_position(progress.entries);
            bar.set_message(format!("{rate:.0} MB/s"));
        } else if self.json {
            let Progress { entries, of, bytes, parts } = progress;
            let seconds = self.start.elapsed().as_secs_f64();
            let line = json!({"progress": self.what, "entries": entries, "of": of, "bytes": bytes, "parts": parts, "seconds": seconds});
            eprintln!("{line}");
        } else {
            let of = if progress.of > 0 { format!(" of {}", progress.of) } else { String::new() };
            eprintln!("{} {} keys{of}, {rate:.0} MB/s", self.what, progress.entries);
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
