//! What replicas of one cluster say to each other: Raft's messages, and ours beside them
//! (docs/formats/frames.md, "replica payload").

use crate::api::Verified;
use base_engine::{ENGINE_KEY_BYTES_MAX, ENGINE_VALUE_BYTES_MAX};
use base_types::codec::{DecodeError, Encode, Reader, Writer};
use base_types::{Generation, LogIndex, ReplicaId, Term};
use bytes::Bytes;
use core_log::LogEntry;
use core_raft::Message;

/// The most indexes one repair request names.
pub const REPAIR_INDEXES_MAX: usize = 64;
/// The most pairs one request for damaged ones names.
pub const PAIRS_MAX: usize = 256;

/// What was applied up to an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub index: LogIndex,
    pub chain: u64,
}

/// What a verdict is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// The chain at this index.
    Index(LogIndex),
    /// The digest of all pairs at this mark.
    Mark(u64),
}

/// One payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    Raft(Message),
    /// The leader has nothing to say and will fall silent; so may a follower that agrees.
    Quiesce {
        from: ReplicaId,
        to: ReplicaId,
        term: Term,
        commit: LogIndex,
    },
    /// A piece of a snapshot, in order. The last one carries Raft's own snapshot message.
    SnapshotChunk {
        to: ReplicaId,
        snapshot: u64,
        sequence: u64,
        data: Bytes,
        last: Option<Message>,
    },
    /// The next sequence the receiver wants; done: everything has been handed to Raft.
    SnapshotAck {
        from: ReplicaId,
        snapshot: u64,
        next: u64,
        done: bool,
    },
    /// Entries that rotted here; a term where it is known.
    RepairRequest {
        from: ReplicaId,
        holes: Vec<(LogIndex, Option<Term>)>,
    },
    RepairReply {
        from: ReplicaId,
        answers: Vec<(LogIndex, RepairAnswer)>,
    },
    /// This replica cannot be mended and asks to be replaced by a new one.
    Lost {
        from: ReplicaId,
    },
    /// The sender holds no such replica: it was removed. To a replica that still talks.
    Removed {
        replica: ReplicaId,
    },
    /// Pairs of its space that read as damaged here.
    PairsRequest {
        from: ReplicaId,
        keys: Vec<Bytes>,
    },
    PairsReply {
        from: ReplicaId,
        pairs: Pairs,
    },
    /// How far are you with what the log's mark asked for?
    VerifyAsk {
        mark: u64,
    },
    VerifyTold {
        from: ReplicaId,
        mark: u64,
        told: Verified,
    },
    /// The sender cannot apply this entry: can you?
    Stuck {
        from: ReplicaId,
        index: LogIndex,
    },
    /// The sender has passed this entry.
    Passed {
        from: ReplicaId,
        index: LogIndex,
    },
    /// A Raft message, and what its sender has applied: up to an index that all sample, and up to its newest.
    Sampled {
        samples: [Sample; 2],
        message: Message,
    },
    /// What a majority of the voters holds; `None`: there is no majority that holds the same.
    Verdict {
        to: ReplicaId,
        term: Term,
        about: About,
        value: Option<u64>,
    },
    /// The receiver's committed log goes beyond its leader's, which ends at this index.
    Contradicts {
        to: ReplicaId,
        term: Term,
        index: LogIndex,
    },
    /// The sender's bucket holds everything up to this index.
    Kept {
        from: ReplicaId,
        index: LogIndex,
        order: TellOrder,
    },
    /// A later life of the cluster has begun without the receiver's majority.
    LifeOver {
        by: Generation,
    },
    /// The sender's disk lost a replica of this cluster and which it was: up to which id were replicas ever made?
    FloorAsk {
        life: u64,
    },
    /// Up to this one, by a leader that was confirmed after it was asked in that life.
    FloorTold {
        replica: ReplicaId,
        life: u64,
    },
}

/// Which of two messages of one tail was sent later: of one life of its lane, the one with the greater number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TellOrder {
    pub life: u64,
    pub number: u64,
}

/// What a member has of another's damaged pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pairs {
    /// What its engine holds…
    pub since: LogIndex,
    /// …and what it has applied.
    pub until: LogIndex,
    pub answers: Vec<(Bytes, PairAnswer)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairAnswer {
    /// Its value (`None`: there is no such key) from `since` until `until`, or at `until` alone if it was written in between.
    Whole { value: Option<Bytes>, overlaid: bool },
    /// Damaged here, too.
    Damaged,
}

impl Encode for Verified {
    fn encode(&self, out: &mut Writer) {
        match self {
            Verified::Unknown => drop(out.u8(0)),
            Verified::Walking { pairs } => drop(out.u8(1).varint(*pairs)),
            Verified::Checked { index, pairs, bytes, hash, damaged } => {
                out.u8(2).varint(index.0).varint(*pairs).varint(*bytes).u64(*hash).varint(*damaged);
            }
            Verified::Missed => drop(out.u8(3)),
            Verified::Unreadable { message } => drop(out.u8(4).string(message)),
            Verified::Silent => drop(out.u8(5)),
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("verified")? {
            0 => Verified::Unknown,
            1 => Verified::Walking { pairs: input.varint("pairs")? },
            2 => Verified::Checked {
                index: LogIndex(input.varint("index")?),
                pairs: input.varint("pairs")?,
                bytes: input.varint("bytes")?,
                hash: input.u64("digest")?,
                damaged: input.varint("damaged")?,
            },
            3 => Verified::Missed,
            4 => Verified::Unreadable { message: input.string("message")? },
            5 => Verified::Silent,
            _ => return Err(DecodeError::Unknown("verified")),
        })
    }
}

fn decode_key(input: &mut Reader) -> Result<Bytes, DecodeError> {
    let key = input.bytes("key")?;
    if key.len() > ENGINE_KEY_BYTES_MAX {
        return Err(DecodeError::TooLarge("key"));
    }
    Ok(key)
}

fn decode_keys(input: &mut Reader) -> Result<Vec<Bytes>, DecodeError> {
    let count = input.count("keys")?;
    if count > PAIRS_MAX {
        return Err(DecodeError::TooLarge("keys"));
    }
    (0..count).map(|_| decode_key(input)).collect()
}

impl Encode for Pairs {
    fn encode(&self, out: &mut Writer) {
        out.varint(self.since.0).varint(self.until.0).varint(self.answers.len() as u64);
        for (key, answer) in &self.answers {
            out.bytes(key);
            match answer {
                PairAnswer::Whole { value, overlaid } => {
                    out.u8(0).bool(*overlaid).option(value.as_ref(), |w, value| {
                        w.bytes(value);
                    });
                }
                PairAnswer::Damaged => drop(out.u8(1)),
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        let (since, until) = (LogIndex(input.varint("since")?), LogIndex(input.varint("until")?));
        let count = input.count("answers")?;
        if count > PAIRS_MAX {
            return Err(DecodeError::TooLarge("answers"));
        }
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            let key = decode_key(input)?;
            let answer = match input.u8("answer")? {
                0 => {
                    let overlaid = input.bool("overlaid")?;
                    let value = input.option("value", |r| r.bytes("value"))?;
                    if value.as_ref().is_some_and(|value| value.len() > ENGINE_VALUE_BYTES_MAX) {
                        return Err(DecodeError::TooLarge("value"));
                    }
                    PairAnswer::Whole { value, overlaid }
                }
                1 => PairAnswer::Damaged,
                _ => return Err(DecodeError::Unknown("answer")),
            };
            answers.push((key, answer));
        }
        Ok(Pairs { since, until, answers })
    }
}

/// What a member knows of an entry that another has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairAnswer {
    /// Here it is; committed as far as the sender knows.
    Have { entry: LogEntry, committed: bool },
    /// Its log is whole and has no such entry.
    Lack,
    /// Committed, applied and compacted: only a snapshot has it.
    Compacted,
    /// It cannot tell (damaged itself).
    Unknown,
}

fn encode_entry(out: &mut Writer, entry: &LogEntry) {
    out.varint(entry.term.0).varint(entry.index.0).u8(entry.kind).bytes(&entry.context).bytes(&entry.data);
}

fn decode_entry(input: &mut Reader) -> Result<LogEntry, DecodeError> {
    let term = Term(input.varint("entry term")?);
    let index = LogIndex(input.varint("entry index")?);
    let kind = input.u8("entry kind")?;
    let context = input.bytes("entry context")?;
    let data = input.bytes("entry data")?;
    Ok(LogEntry { term, index, kind, data, context })
}

fn decode_holes(input: &mut Reader) -> Result<Vec<(LogIndex, Option<Term>)>, DecodeError> {
    let count = input.count("holes")?;
    if count > REPAIR_INDEXES_MAX {
        return Err(DecodeError::TooLarge("holes"));
    }
    (0..count)
        .map(|_| Ok((LogIndex(input.varint("index")?), input.option("term", |r| r.varint("term").map(Term))?)))
        .collect()
}

fn decode_answers(input: &mut Reader) -> Result<Vec<(LogIndex, RepairAnswer)>, DecodeError> {
    let count = input.count("answers")?;
    if count > REPAIR_INDEXES_MAX {
        return Err(DecodeError::TooLarge("answers"));
    }
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        let index = LogIndex(input.varint("index")?);
        let answer = match input.u8("answer")? {
            0 => RepairAnswer::Have { committed: input.bool("committed")?, entry: decode_entry(input)? },
            1 => RepairAnswer::Lack,
            2 => RepairAnswer::Compacted,
            3 => RepairAnswer::Unknown,
            _ => return Err(DecodeError::Unknown("answer")),
        };
        answers.push((index, answer));
    }
    Ok(answers)
}

impl Encode for Payload {
    fn encode(&self, out: &mut Writer) {
        match self {
            Payload::Raft(message) => message.encode(out.u8(0)),
            Payload::Quiesce { from, to, term, commit } => {
                out.u8(1).varint(from.0).varint(to.0).varint(term.0).varint(commit.0);
            }
            Payload::SnapshotChunk { to, snapshot, sequence, data, last } => {
                out.u8(2).varint(to.0).u64(*snapshot).varint(*sequence).bytes(data);
                out.option(last.as_ref(), |w, message| message.encode(w));
            }
            Payload::SnapshotAck { from, snapshot, next, done } => {
                out.u8(3).varint(from.0).u64(*snapshot).varint(*next).bool(*done);
            }
            Payload::RepairRequest { from, holes } => {
                out.u8(4).varint(from.0).varint(holes.len() as u64);
                for (index, term) in holes {
                    out.varint(index.0).option(*term, |w, term| {
                        w.varint(term.0);
                    });
                }
            }
            Payload::RepairReply { from, answers } => {
                out.u8(5).varint(from.0).varint(answers.len() as u64);
                for (index, answer) in answers {
                    out.varint(index.0);
                    match answer {
                        RepairAnswer::Have { entry, committed } => encode_entry(out.u8(0).bool(*committed), entry),
                        RepairAnswer::Lack => drop(out.u8(1)),
                        RepairAnswer::Compacted => drop(out.u8(2)),
                        RepairAnswer::Unknown => drop(out.u8(3)),
                    }
                }
            }
            Payload::Lost { from } => drop(out.u8(6).varint(from.0)),
            Payload::Removed { replica } => drop(out.u8(7).varint(replica.0)),
            Payload::PairsRequest { from, keys } => {
                out.u8(8).varint(from.0).varint(keys.len() as u64);
                for key in keys {
                    out.bytes(key);
                }
            }
            Payload::PairsReply { from, pairs } => pairs.encode(out.u8(9).varint(from.0)),
            Payload::VerifyAsk { mark } => drop(out.u8(10).u64(*mark)),
            Payload::VerifyTold { from, mark, told } => told.encode(out.u8(11).varint(from.0).u64(*mark)),
            Payload::Kept { from, index, order } => {
                out.u8(12).varint(from.0).varint(index.0).u64(order.life).varint(order.number);
            }
            Payload::LifeOver { by } => drop(out.u8(20).u32(by.0)),
            Payload::FloorAsk { life } => drop(out.u8(13).u64(*life)),
            Payload::FloorTold { replica, life } => drop(out.u8(14).varint(replica.0).u64(*life)),
            Payload::Sampled { samples, message } => {
                out.u8(16);
                for sample in samples {
                    out.varint(sample.index.0).u64(sample.chain);
                }
                message.encode(out);
            }
            Payload::Verdict { to, term, about, value } => {
                out.u8(17).varint(to.0).varint(term.0);
                match about {
                    About::Index(index) => out.u8(0).varint(index.0),
                    About::Mark(mark) => out.u8(1).u64(*mark),
                };
                out.option(*value, |w, value| {
                    w.u64(value);
                });
            }
            Payload::Contradicts { to, term, index } => drop(out.u8(15).varint(to.0).varint(term.0).varint(index.0)),
            Payload::Stuck { from, index } => drop(out.u8(18).varint(from.0).varint(index.0)),
            Payload::Passed { from, index } => drop(out.u8(19).varint(from.0).varint(index.0)),
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("payload")? {
            0 => Payload::Raft(Message::decode(input)?),
            1 => Payload::Quiesce {
                from: ReplicaId(input.varint("from")?),
                to: ReplicaId(input.varint("to")?),
                term: Term(input.varint("term")?),
                commit: LogIndex(input.varint("commit")?),
            },
            2 => Payload::SnapshotChunk {
                to: ReplicaId(input.varint("to")?),
                snapshot: input.u64("snapshot")?,
                sequence: input.varint("sequence")?,
                data: input.bytes("chunk")?,
                last: input.option("last", Message::decode)?,
            },
            3 => Payload::SnapshotAck {
                from: ReplicaId(input.varint("from")?),
                snapshot: input.u64("snapshot")?,
                next: input.varint("next")?,
                done: input.bool("done")?,
            },
            4 => Payload::RepairRequest { from: ReplicaId(input.varint("from")?), holes: decode_holes(input)? },
            5 => Payload::RepairReply { from: ReplicaId(input.varint("from")?), answers: decode_answers(input)? },
            6 => Payload::Lost { from: ReplicaId(input.varint("from")?) },
            20 => Payload::LifeOver { by: Generation(input.u32("generation")?) },
            7 => Payload::Removed { replica: ReplicaId(input.varint("replica")?) },
            8 => Payload::PairsRequest { from: ReplicaId(input.varint("from")?), keys: decode_keys(input)? },
            9 => Payload::PairsReply { from: ReplicaId(input.varint("from")?), pairs: Pairs::decode(input)? },
            10 => Payload::VerifyAsk { mark: input.u64("mark")? },
            11 => Payload::VerifyTold {
                from: ReplicaId(input.varint("from")?),
                mark: input.u64("mark")?,
                told: Verified::decode(input)?,
            },
            12 => Payload::Kept {
                from: ReplicaId(input.varint("from")?),
                index: LogIndex(input.varint("index")?),
                order: TellOrder { life: input.u64("life")?, number: input.varint("number")? },
            },
            13 => Payload::FloorAsk { life: input.u64("life")? },
            14 => Payload::FloorTold { replica: ReplicaId(input.varint("replica")?), life: input.u64("life")? },
            18 => Payload::Stuck { from: ReplicaId(input.varint("from")?), index: LogIndex(input.varint("index")?) },
            19 => Payload::Passed { from: ReplicaId(input.varint("from")?), index: LogIndex(input.varint("index")?) },
            16 => {
                let mut sample =
                    || Ok(Sample { index: LogIndex(input.varint("sampled index")?), chain: input.u64("chain")? });
                let samples = [sample()?, sample()?];
                Payload::Sampled { samples, message: Message::decode(input)? }
            }
            17 => Payload::Verdict {
                to: ReplicaId(input.varint("to")?),
                term: Term(input.varint("term")?),
                about: match input.u8("about")? {
                    0 => About::Index(LogIndex(input.varint("index")?)),
                    1 => About::Mark(input.u64("mark")?),
                    _ => return Err(DecodeError::Unknown("about")),
                },
                value: input.option("value", |r| r.u64("value"))?,
            },
            15 => Payload::Contradicts {
                to: ReplicaId(input.varint("to")?),
                term: Term(input.varint("term")?),
                index: LogIndex(input.varint("index")?),
            },
            _ => return Err(DecodeError::Unknown("payload")),
        })
    }
}

/// Fuzzing's way in: any bytes decode or are refused.
pub fn fuzz_decode(bytes: &[u8]) {
    let _either_is_fine = Payload::from_bytes(Bytes::copy_from_slice(bytes));
    let _either_is_fine = crate::entry::decode(Bytes::copy_from_slice(bytes));
}
