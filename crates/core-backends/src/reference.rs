//! The `reference` backend: which clusters there are and where (Hive paper, 2.5), and documents with
//! compare-and-set for keyspaces and flows.
//!
//! ```text
//!            Create              SetState Active
//!  (nothing) ──────▶ Creating ─────────────────▶ Active
//!      ▲                │ SetState Deleting, Delete │ Delete
//!      │     Purge      ▼                           ▼
//!      └──────────── Deleting ◀─────────────────────┘
//! ```
//!
//! Rows (numbers of their own are 8 bytes, big-endian):
//!
//! ```text
//! n name  ClusterRecord             c id   name
//! g name  last generation, kept for ever, so that no life of a name is taken for another
//! u name  (empty) Creating or Deleting
//! r name  a life that ended without its majority (recoveries.rs)
//! I       last id                   D      last document version
//! d key   version u64 (little-endian) | body
//! l end   last id before a life of this cluster that began without its majority, the first of which is `end`
//! ```
//!
//! Always: an id and a (name, generation) are given once and never again (mutant `LostIdsGivenAgain`); a document's versions only
//! grow, over deletes too, so an old version never matches again (`invariants.rs`, `tests.rs`).
//! Not here: making and removing replicas (core-node, flows), what documents mean.

pub use recoveries::{Recovery, RECOVERIES_MAX};

use crate::contract::{corrupt_row, decode, ApplyContext, Backend, SpaceRead, SpaceWrite};
use crate::invariants::Checked;
use crate::reply::encode_reply;
use crate::rows::{key, key_number, number, prefix_page, set_number};
use base_engine::EngineError;
use base_types::codec::{Encode, Reader, Writer};
use base_types::mutant::{planted, Mutant};
use base_types::{
    ClusterId, ClusterName, DiskId, ErrorCode, Generation, LogIndex, NodeId, ReadConsistency, Refusal, ReplicaId, Term,
    WriteConsistency, KEY_BYTES_MAX, VALUE_BYTES_MAX,
};
use bytes::Bytes;
use core_placement::{Rule, RULE_SIZE_MAX};

/// Ids below are for clusters known by configuration (world, regions).
pub const CLUSTER_ID_FIRST: u64 = 1000;
/// The most members a reference lists: a full cluster and as many that are joining.
pub const MEMBERS_MAX: usize = 2 * RULE_SIZE_MAX;
/// The most records or documents one reply lists.
pub const LIST_PAGE_MAX: u32 = 1_000;
/// The bytes after which a page of documents ends early.
pub const LIST_PAGE_BYTES_MAX: usize = 4 << 20;
/// The most lives one question asks after.
pub const LIVES_MAX: usize = 1_000;
/// The longest engine name.
pub const ENGINE_BYTES_MAX: usize = 64;

/// Where a cluster is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum ClusterState {
    /// Named; its replicas are being made.
    Creating = 1,
    /// Serving.
    Active = 2,
    /// Its replicas are being removed.
    Deleting = 3,
}

/// A member as the reference knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct ClusterMember {
    pub replica: ReplicaId,
    pub node: NodeId,
    pub disk: DiskId,
    pub learner: bool,
}

/// A reference to a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterRecord {
    pub name: ClusterName,
    pub cluster: ClusterId,
    pub generation: Generation,
    pub rule: String,
    pub engine: String,
    pub consistency: WriteConsistency,
    pub read_consistency: ReadConsistency,
    pub state: ClusterState,
    pub members: Vec<ClusterMember>,
    /// The (term, index) of the membership that `members` is; zero: the first.
    pub members_at: (Term, LogIndex),
    /// Cluster time of the reference's own cluster.
    pub created_ms: u64,
    /// Grows with each change of this record.
    pub version: u64,
}

/// A document.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Document {
    pub key: Bytes,
    pub version: u64,
    pub body: Bytes,
}

/// What changes the state. A `generation` that is not the record's is refused `WrongGeneration`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Names a cluster: a new id, the next generation of the name, state Creating.
    Create {
        name: ClusterName,
        rule: String,
        engine: String,
        consistency: WriteConsistency,
        read_consistency: ReadConsistency,
        members: Vec<ClusterMember>,
    },
    /// Moves a cluster on in its life.
    SetState { name: ClusterName, generation: Generation, state: ClusterState },
    /// What a cluster's leader says of its members; passed over unless (term, index) is newer.
    UpdateMembers {
        name: ClusterName,
        generation: Generation,
        members: Vec<ClusterMember>,
        term: Term,
        index: LogIndex,
    },
    /// Changes the default levels told by `Resolve`; `None` leaves one as it is.
    SetLevels {
        name: ClusterName,
        generation: Generation,
        consistency: Option<WriteConsistency>,
        read_consistency: Option<ReadConsistency>,
    },
    /// The engine that new replicas of a cluster are made in, here and in its rule.
    SetEngine { name: ClusterName, generation: Generation, engine: String },
    /// State Deleting, from any state.
    Delete { name: ClusterName, generation: Generation },
    /// Forgets a cluster that is Deleting, but for its generation. Done if it is gone already.
    Purge { name: ClusterName, generation: Generation },
    /// The next life of a cluster begins on one survivor, which is its only member; refused unless the life that ended is the
    /// record's. Done if it has begun there already.
    Recover { recovery: Box<Recovery> },
    /// The world's or a region's cluster was recovered, as nobody but an operator can decide: kept to be listed.
    NoteRecovery { recovery: Box<Recovery> },
    /// A node keeps nothing of an ended life any more, or the cluster has its members again (`whole`).
    SettleRecovery { name: ClusterName, ended: Generation, discarded: Option<NodeId>, whole: bool },
    /// Sets a document if its version is `expected_version`; `None` or `Some(0)`: if there is none.
    /// Else `ConditionFailed`.
    PutDocument { key: Bytes, expected_version: Option<u64>, body: Bytes },
    /// Removes a document if its version is `expected_version`; `None`: whatever it is.
    DeleteDocument { key: Bytes, expected_version: Option<u64> },
}

/// What reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// A cluster by name.
    Resolve { name: ClusterName },
    /// A cluster by id.
    ResolveId { cluster: ClusterId },
    /// Clusters by name.
    List { prefix: String, start_after: Option<String>, limit: u32 },
    /// Clusters that are Creating or Deleting, by name.
    Unfinished { limit: u32 },
    /// Which of these lives are over. What is over stays so, so any member of the cluster may answer: one that is
    /// behind leaves some out and names none wrongly.
    /// Nor does it name one whose id only entries gave that were lost with a majority of this cluster.
    Buried { lives: Vec<(ClusterName, Generation, ClusterId)> },
    /// Lives that ended without their majority, of one cluster or of all.
    Recoveries { name: Option<ClusterName>, start_after: Option<(ClusterName, Generation)>, limit: u32 },
    /// Which of these clusters' records list other members than those of this digest ([`members_digest`]).
    Outdated { members: Vec<(ClusterName, Generation, u64)> },
    /// A document.
    GetDocument { key: Bytes },
    /// Documents by key.
    ListDocuments { prefix: Bytes, start_after: Option<Bytes>, limit: u32 },
}

/// What either comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Nothing to say but that it was done.
    Done,
    /// The record after the command.
    Record { record: ClusterRecord },
    /// The record, if there is one; `last_generation` of the name even where there is none (0: never).
    Resolved { record: Option<ClusterRecord>, last_generation: Generation },
    /// A page. Where there is `more`, the next page begins after the last name.
    Records { records: Vec<ClusterRecord>, more: bool },
    /// The places in the question of the lives that are over; of those that ended by a recovery, the life that is now.
    Buried { places: Vec<u32>, ended: Vec<(u32, Generation)> },
    /// A page; where there is `more`, continue after the last one.
    Recoveries { recoveries: Vec<Recovery>, more: bool },
    /// To `Outdated`: their places in the question. A life that is not known here is not among them.
    Outdated { places: Vec<u32> },
    /// The version a put gave.
    Version { version: u64 },
    /// Whether the document was there.
    Deleted { existed: bool },
    /// A document, if there is one.
    Document { document: Option<Document> },
    /// A page. Where there is `more`, the next page begins after the last key.
    Documents { documents: Vec<Document>, more: bool },
}

const NAME: u8 = b'n';
const ID: u8 = b'c';
const GENERATION: u8 = b'g';
const UNFINISHED: u8 = b'u';
const LAST_ID: u8 = b'I';
const DOCUMENT: u8 = b'd';
const LAST_DOCUMENT: u8 = b'D';
const LOST: u8 = b'l';
/// A later life of this cluster gives ids and versions from its number times this on: above all that lost entries gave.
const OF_A_LIFE: u64 = 1 << 20;
/// Gaps that are read: a life of the world more is an operator's work of a day.
const GAPS_MAX: usize = 256;

type Outcome = Result<Result<Reply, Refusal>, EngineError>;

/// The backend, as the table has it.
pub(crate) struct Reference;

impl Backend for Reference {
    fn validate(&self, command: &Bytes) -> Result<(), Refusal> {
        validate(command)
    }

    fn apply(&self, at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
        apply(at, space, command)
    }

    fn query(&self, cluster_time_ms: u64, space: &dyn SpaceRead, bytes: &Bytes) -> Result<Bytes, EngineError> {
        query(cluster_time_ms, space, bytes)
    }

    fn check_invariants(&self, space: &dyn SpaceRead) -> Checked {
        invariants::check(space)
    }
}

/// Refuses a command that could not be applied, before it reaches the log.
pub fn validate(command: &Bytes) -> Result<(), Refusal> {
    check(&decode("reference command", command)?)
}

fn check(command: &Command) -> Result<(), Refusal> {
    match command {
        Command::Create { name, rule, engine, members, .. } => {
            rule.parse::<Rule>().map_err(Refusal::from)?;
            check_engine(name, engine)?;
            check_members(name, members)
        }
        Command::SetEngine { name, engine, .. } => {
            // It becomes a word of the rule, which must still be one.
            format!("engine={engine}").parse::<Rule>().map_err(Refusal::from)?;
            check_engine(name, engine)
        }
        Command::UpdateMembers { name, members, .. } => check_members(name, members),
        Command::Recover { recovery } | Command::NoteRecovery { recovery } => recoveries::check(recovery),
        Command::PutDocument { key, body, .. } => check_key(key).and_then(|()| check_body(key, body)),
        Command::DeleteDocument { key, .. } => check_key(key),
        _ => Ok(()),
    }
}

fn check_engine(name: &ClusterName, engine: &str) -> Result<(), Refusal> {
    if engine.is_empty() || engine.len() > ENGINE_BYTES_MAX {
        let message = format!("cluster '{name}' needs an engine's name of 1 to {ENGINE_BYTES_MAX} bytes");
        return Err(Refusal::new(ErrorCode::UnknownEngine, message));
    }
    Ok(())
}

fn check_members(name: &ClusterName, members: &[ClusterMember]) -> Result<(), Refusal> {
    if members.is_empty() || members.len() > MEMBERS_MAX {
        let message =
            format!("cluster '{name}' was given {} members; from 1 to {MEMBERS_MAX} are taken", members.len());
        return Err(Refusal::new(ErrorCode::TooManyMembers, message));
    }
    let twice = |at: usize| members[..at].iter().any(|other| other.replica == members[at].replica);
    match (0..members.len()).find(|at| twice(*at)) {
        Some(at) => {
            let message =
                format!("cluster '{name}' was given replica {} twice; replica ids are given once", members[at].replica);
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        None => Ok(()),
    }
}

fn check_key(key: &Bytes) -> Result<(), Refusal> {
    match key.len() {
        0 => Err(Refusal::new(ErrorCode::EmptyKey, "a document's key is empty; name it")),
        bytes if bytes > KEY_BYTES_MAX => {
            let message = format!("a document's key is {bytes} bytes long; at most {KEY_BYTES_MAX} are taken");
            Err(Refusal::new(ErrorCode::KeyTooLarge, message))
        }
        _ => Ok(()),
    }
}

fn check_body(key: &Bytes, body: &Bytes) -> Result<(), Refusal> {
    if body.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    let name = String::from_utf8_lossy(key);
    let message = format!("document '{name}' is {} bytes long; at most {VALUE_BYTES_MAX} are taken", body.len());
    Err(Refusal::new(ErrorCode::ValueTooLarge, message))
}

/// Applies a command; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn apply(at: ApplyContext, space: &mut dyn SpaceWrite, command: &Bytes) -> Result<Bytes, EngineError> {
    let checked = decode::<Command>("reference command", command).and_then(|command| check(&command).map(|()| command));
    let reply = match checked {
        Err(refusal) => Err(refusal),
        Ok(command) => run(at, space, command)?,
    };
    Ok(encode_reply(&reply))
}

fn run(at: ApplyContext, space: &mut dyn SpaceWrite, command: Command) -> Outcome {
    match command {
        Command::Create { name, rule, engine, consistency, read_consistency, members } => {
            let record = ClusterRecord {
                name,
                cluster: ClusterId(0),
                generation: Generation(0),
                rule,
                engine,
                consistency,
                read_consistency,
                state: ClusterState::Creating,
                members,
                members_at: (Term(0), LogIndex(0)),
                created_ms: at.cluster_time_ms,
                version: 0,
            };
            create(at.life, space, record)
        }
        Command::SetState { name, generation, state } => {
            change(space, &name, generation, |record| {
                // Who gives a creation up must not end what another has finished: that takes a `Delete`.
                if record.state == ClusterState::Active && state == ClusterState::Deleting {
                    let message = format!("cluster '{}' serves; it is ended by Delete alone", record.name);
                    return Err(Refusal::new(ErrorCode::Conflict, message));
                }
                set_state(record, state)
            })
        }
        Command::UpdateMembers { name, generation, members, term, index } => {
            change(space, &name, generation, |record| {
                if (term, index) > record.members_at || planted(Mutant::OlderMembersTaken) {
                    (record.members, record.members_at) = (members, (term, index));
                }
                Ok(())
            })
        }
        Command::SetLevels { name, generation, consistency, read_consistency } => {
            change(space, &name, generation, |record| {
                record.consistency = consistency.unwrap_or(record.consistency);
                record.read_consistency = read_consistency.unwrap_or(record.read_consistency);
                Ok(())
            })
        }
        Command::SetEngine { name, generation, engine } => change(space, &name, generation, |record| {
            // A rule of a release that knows more words stays as it is: the cluster itself decides.
            if let Ok(rule) = record.rule.parse::<Rule>() {
                record.rule = Rule { engine: Some(engine.clone()), ..rule }.to_string();
            }
            record.engine = engine;
            Ok(())
        }),
        Command::Delete { name, generation } => {
            change(space, &name, generation, |record| set_state(record, ClusterState::Deleting))
        }
        Command::Purge { name, generation } => purge(space, &name, generation),
        Command::Recover { recovery } => recoveries::recover(space, *recovery),
        Command::NoteRecovery { recovery } => recoveries::note(space, *recovery),
        Command::SettleRecovery { name, ended, discarded, whole } => {
            recoveries::settle(space, &name, ended, discarded, whole)
        }
        Command::PutDocument { key, expected_version, body } => {
            put_document(at.life, space, &key, expected_version, &body)
        }
        Command::DeleteDocument { key, expected_version } => delete_document(space, &key, expected_version),
    }
}

fn create(life: Generation, space: &mut dyn SpaceWrite, mut record: ClusterRecord) -> Outcome {
    let name = record.name.clone();
    if let Some(old) = read(space, &name)? {
        let message = match old.state {
            ClusterState::Deleting => format!("cluster '{name}' is still being deleted; retry when it is gone"),
            _ => format!(
                "cluster '{name}' is there already, with id {}; delete it first or choose another name",
                old.cluster
            ),
        };
        return Ok(Err(Refusal::new(ErrorCode::ClusterExists, message)));
    }
    let last = last_generation(space, &name)?;
    let Some(generation) = last.0.checked_add(1) else {
        let message = format!("cluster name '{name}' has been used up ({} lives); choose another name", last.0);
        return Ok(Err(Refusal::new(ErrorCode::InvalidClusterName, message)));
    };
    let id = next_id(life, space)?;
    set_number(space, key(LAST_ID, &[]), id);
    (record.cluster, record.generation) = (ClusterId(id), Generation(generation));
    set_number(space, key(GENERATION, &[name.as_str().as_bytes()]), generation.into());
    space.put(key(ID, &[&id.to_be_bytes()]), Bytes::copy_from_slice(name.as_str().as_bytes()));
    write(space, &mut record);
    Ok(Ok(Reply::Record { record }))
}

/// The first number of a life of this cluster; the first life begins at zero.
fn first_of(life: Generation) -> u64 {
    if life.0 <= 1 || planted(Mutant::LostIdsGivenAgain) {
        return 0;
    }
    u64::from(life.0) * OF_A_LIFE
}

/// A cluster id that was never given, also not by entries that were lost with a majority of this cluster.
fn next_id(life: Generation, space: &mut dyn SpaceWrite) -> Result<u64, EngineError> {
    let last = number(space, &[LAST_ID])?.max(CLUSTER_ID_FIRST - 1);
    let first = first_of(life);
    if last >= first {
        return Ok(last + 1);
    }
    set_number(space, key(LOST, &[&first.to_be_bytes()]), last);
    Ok(first)
}

/// Whether only lost entries can have given this id: what has it is nobody's here to remove.
fn is_lost(space: &dyn SpaceRead, cluster: ClusterId) -> Result<bool, EngineError> {
    if cluster.0 > number(space, &[LAST_ID])? {
        return Ok(true);
    }
    let (gaps, _) = prefix_page(space, &[LOST], None, GAPS_MAX)?;
    for (row, _) in gaps {
        let (first, last) = (key_number(&row, 1)?, number(space, &row)?);
        if last < cluster.0 && cluster.0 < first {
            return Ok(true);
        }
    }
    Ok(false)
}

fn set_state(record: &mut ClusterRecord, state: ClusterState) -> Result<(), Refusal> {
    // A life goes one way.
    if state < record.state {
        let message = format!(
            "cluster '{}' is {:?}, which does not go back to {state:?}; read it again",
            record.name, record.state
        );
        return Err(Refusal::new(ErrorCode::Conflict, message));
    }
    record.state = state;
    Ok(())
}

/// Changes a record of this generation; nothing is written where nothing changes.
fn change(
    space: &mut dyn SpaceWrite,
    name: &ClusterName,
    generation: Generation,
    edit: impl FnOnce(&mut ClusterRecord) -> Result<(), Refusal>,
) -> Outcome {
    let Some(old) = read(space, name)? else { return Ok(Err(unknown(name))) };
    if old.generation != generation {
        return Ok(Err(wrong_generation(name, old.generation, generation)));
    }
    let mut record = old.clone();
    if let Err(refusal) = edit(&mut record) {
        return Ok(Err(refusal));
    }
    if record != old {
        write(space, &mut record);
    }
    Ok(Ok(Reply::Record { record }))
}

fn purge(space: &mut dyn SpaceWrite, name: &ClusterName, generation: Generation) -> Outcome {
    let Some(old) = read(space, name)? else {
        let gone = generation.0 > 0 && generation <= last_generation(space, name)?;
        return Ok(if gone { Ok(Reply::Done) } else { Err(unknown(name)) });
    };
    if old.generation > generation {
        return Ok(Ok(Reply::Done));
    }
    if old.generation != generation {
        return Ok(Err(wrong_generation(name, old.generation, generation)));
    }
    if old.state != ClusterState::Deleting {
        let message = format!("cluster '{name}' is {:?}; delete it before it is purged", old.state);
        return Ok(Err(Refusal::new(ErrorCode::Conflict, message)));
    }
    let text = name.as_str().as_bytes();
    space.delete(key(NAME, &[text]));
    space.delete(key(UNFINISHED, &[text]));
    space.delete(key(ID, &[&old.cluster.0.to_be_bytes()]));
    recoveries::forget(space, name)?;
    Ok(Ok(Reply::Done))
}

fn write(space: &mut dyn SpaceWrite, record: &mut ClusterRecord) {
    record.version = record.version.saturating_add(1);
    let text = record.name.as_str().as_bytes();
    space.put(key(NAME, &[text]), record.to_bytes());
    if record.state == ClusterState::Active {
        space.delete(key(UNFINISHED, &[text]));
    } else {
        space.put(key(UNFINISHED, &[text]), Bytes::new());
    }
}

fn read(space: &dyn SpaceRead, name: &ClusterName) -> Result<Option<ClusterRecord>, EngineError> {
    space.get(&key(NAME, &[name.as_str().as_bytes()]))?.map(read_record).transpose()
}

fn read_record(row: Bytes) -> Result<ClusterRecord, EngineError> {
    ClusterRecord::from_bytes(row).map_err(|error| corrupt_row("cluster record", error))
}

fn last_generation(space: &dyn SpaceRead, name: &ClusterName) -> Result<Generation, EngineError> {
    let last = number(space, &key(GENERATION, &[name.as_str().as_bytes()]))?;
    u32::try_from(last).map(Generation).map_err(|_| EngineError::Corrupt(format!("generation {last} of '{name}'")))
}

fn unknown(name: &ClusterName) -> Refusal {
    let message = format!("cluster '{name}' does not exist; create it or look at the list of clusters");
    Refusal::new(ErrorCode::UnknownCluster, message)
}

fn wrong_generation(name: &ClusterName, is: Generation, asked: Generation) -> Refusal {
    let message = format!("cluster '{name}' has generation {is}, not {asked}; resolve it again");
    Refusal::new(ErrorCode::WrongGeneration, message)
}

fn put_document(
    life: Generation,
    space: &mut dyn SpaceWrite,
    name: &Bytes,
    expected: Option<u64>,
    body: &Bytes,
) -> Outcome {
    let row = key(DOCUMENT, &[name]);
    let old = space.get(&row)?.map(|value| read_document(name.clone(), value)).transpose()?;
    let is = old.map_or(0, |document| document.version);
    if is != expected.unwrap_or(0) {
        return Ok(Err(condition_failed(name, is, expected.unwrap_or(0))));
    }
    let version = (number(space, &[LAST_DOCUMENT])? + 1).max(first_of(life));
    set_number(space, key(LAST_DOCUMENT, &[]), version);
    let mut value = Writer::with_capacity(8 + body.len());
    value.u64(version).raw(body);
    space.put(row, value.finish());
    Ok(Ok(Reply::Version { version }))
}

fn delete_document(space: &mut dyn SpaceWrite, name: &Bytes, expected: Option<u64>) -> Outcome {
    let row = key(DOCUMENT, &[name]);
    let old = space.get(&row)?.map(|value| read_document(name.clone(), value)).transpose()?;
    let is = old.as_ref().map_or(0, |document| document.version);
    if expected.is_some_and(|expected| expected != is) {
        return Ok(Err(condition_failed(name, is, expected.unwrap_or(0))));
    }
    if old.is_some() {
        space.delete(row);
    }
    Ok(Ok(Reply::Deleted { existed: old.is_some() }))
}

fn condition_failed(name: &Bytes, is: u64, expected: u64) -> Refusal {
    let name = String::from_utf8_lossy(name);
    let message =
        format!("document '{name}' has version {is}, not {expected} (0: there is none); read it again and retry");
    Refusal::new(ErrorCode::ConditionFailed, message)
}

fn read_document(name: Bytes, row: Bytes) -> Result<Document, EngineError> {
    let mut input = Reader::new(row);
    let version = input.u64("document version").map_err(|error| corrupt_row("document", error))?;
    Ok(Document { key: name, version, body: input.rest() })
}

/// Answers a query; the reply is `encode_reply` of a [`Reply`] or refusal.
pub fn query(_cluster_time_ms: u64, space: &dyn SpaceRead, query: &Bytes) -> Result<Bytes, EngineError> {
    let reply = match decode::<Query>("reference query", query) {
        Err(refusal) => Err(refusal),
        Ok(query) => Ok(answer(space, query)?),
    };
    Ok(encode_reply(&reply))
}

fn answer(space: &dyn SpaceRead, query: Query) -> Result<Reply, EngineError> {
    Ok(match query {
        Query::Resolve { name } => {
            Reply::Resolved { record: read(space, &name)?, last_generation: last_generation(space, &name)? }
        }
        Query::ResolveId { cluster } => resolve_id(space, cluster)?,
        Query::List { prefix, start_after, limit } => {
            let after = start_after.map(|after| key(NAME, &[after.as_bytes()]));
            let prefix = key(NAME, &[prefix.as_bytes()]);
            let (rows, more) = prefix_page(space, &prefix, after.as_deref(), page_limit(limit))?;
            let records = rows.into_iter().map(|(_, row)| read_record(row)).collect::<Result<_, _>>()?;
            Reply::Records { records, more }
        }
        Query::Unfinished { limit } => {
            let (rows, more) = prefix_page(space, &[UNFINISHED], None, page_limit(limit))?;
            let mut records = Vec::with_capacity(rows.len());
            for (unfinished, _) in rows {
                if let Some(row) = space.get(&key(NAME, &[&unfinished[1..]]))? {
                    records.push(read_record(row)?);
                }
            }
            Reply::Records { records, more }
        }
        Query::Buried { lives } => {
            let (mut places, mut ended) = (Vec::new(), Vec::new());
            for (place, (name, generation, cluster)) in lives.iter().enumerate() {
                if is_lost(space, *cluster)? {
                    continue;
                }
                if let Some(by) = recoveries::ended_by(space, name, *generation)? {
                    ended.push((place as u32, by));
                } else if is_over(space, name, *generation)? {
                    places.push(place as u32);
                }
            }
            Reply::Buried { places, ended }
        }
        Query::Recoveries { name, start_after, limit } => {
            recoveries::list(space, name.as_ref(), start_after.as_ref(), limit)?
        }
        Query::Outdated { members } => {
            let mut places = Vec::new();
            for (place, (name, generation, digest)) in members.iter().enumerate() {
                let record = read(space, name)?.filter(|record| record.generation == *generation);
                if record.is_some_and(|record| members_digest(&record.members) != *digest) {
                    places.push(place as u32);
                }
            }
            Reply::Outdated { places }
        }
        Query::GetDocument { key: name } => {
            let row = space.get(&key(DOCUMENT, &[&name]))?;
            Reply::Document { document: row.map(|row| read_document(name, row)).transpose()? }
        }
        Query::ListDocuments { prefix, start_after, limit } => list_documents(space, &prefix, start_after, limit)?,
    })
}

/// Equal for equal members, in whatever order.
pub fn members_digest(members: &[ClusterMember]) -> u64 {
    let mut sorted: Vec<&ClusterMember> = members.iter().collect();
    sorted.sort_by_key(|member| member.replica);
    let mut out = Writer::new();
    for member in sorted {
        out.u64(member.replica.0).u64(member.node.0).u64(member.disk.0).bool(member.learner);
    }
    xxhash_rust::xxh3::xxh3_64(&out.into_vec())
}

/// Whether a life has been purged. One that is not known here yet may still begin.
fn is_over(space: &dyn SpaceRead, name: &ClusterName, generation: Generation) -> Result<bool, EngineError> {
    let last = last_generation(space, name)?;
    Ok(generation < last || generation == last && generation.0 > 0 && read(space, name)?.is_none())
}

fn page_limit(limit: u32) -> usize {
    limit.clamp(1, LIST_PAGE_MAX) as usize
}

fn resolve_id(space: &dyn SpaceRead, cluster: ClusterId) -> Result<Reply, EngineError> {
    let Some(name) = space.get(&key(ID, &[&cluster.0.to_be_bytes()]))? else {
        return Ok(Reply::Resolved { record: None, last_generation: Generation(0) });
    };
    let record = space.get(&key(NAME, &[&name]))?.map(read_record).transpose()?;
    let last_generation = record.as_ref().map_or(Generation(0), |record| record.generation);
    Ok(Reply::Resolved { record, last_generation })
}

fn list_documents(
    space: &dyn SpaceRead,
    prefix: &Bytes,
    start_after: Option<Bytes>,
    limit: u32,
) -> Result<Reply, EngineError> {
    let after = start_after.map(|after| key(DOCUMENT, &[&after]));
    let mut reached = after;
    let prefix = key(DOCUMENT, &[prefix]);
    let (mut documents, mut bytes) = (Vec::new(), 0);
    // One document at a time: a page of large ones must not be gathered before it is cut.
    while documents.len() < page_limit(limit) {
        let (rows, _) = prefix_page(space, &prefix, reached.as_deref(), 1)?;
        let Some((row_key, row)) = rows.into_iter().next() else {
            return Ok(Reply::Documents { documents, more: false });
        };
        bytes += row_key.len() + row.len();
        if bytes > LIST_PAGE_BYTES_MAX && !documents.is_empty() {
            return Ok(Reply::Documents { documents, more: true });
        }
        documents.push(read_document(row_key.slice(1..), row)?);
        reached = Some(row_key);
    }
    let (rest, _) = prefix_page(space, &prefix, reached.as_deref(), 1)?;
    Ok(Reply::Documents { documents, more: !rest.is_empty() })
}

mod invariants;
mod recoveries;
#[cfg(test)]
mod tests;
mod wire;
