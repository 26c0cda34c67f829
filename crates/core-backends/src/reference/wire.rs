//! The byte forms of the reference's records, commands, queries and replies: a tag, then the fields
//! in order.

use super::*;
use base_types::codec::DecodeError;

pub(super) fn name(input: &mut Reader) -> Result<ClusterName, DecodeError> {
    input.string("cluster name")?.parse().map_err(|_| DecodeError::Unknown("cluster name"))
}

pub(super) fn generation(input: &mut Reader) -> Result<Generation, DecodeError> {
    Ok(Generation(input.u32("generation")?))
}

fn write_level(input: &mut Reader) -> Result<WriteConsistency, DecodeError> {
    WriteConsistency::from_byte(input.u8("consistency")?).ok_or(DecodeError::Unknown("consistency"))
}

fn read_level(input: &mut Reader) -> Result<ReadConsistency, DecodeError> {
    ReadConsistency::from_byte(input.u8("read consistency")?).ok_or(DecodeError::Unknown("read consistency"))
}

fn bounded(input: &mut Reader, what: &'static str, most: usize) -> Result<usize, DecodeError> {
    let count = input.count(what)?;
    if count > most {
        return Err(DecodeError::TooLarge(what));
    }
    Ok(count)
}

pub(super) fn put_list<T: Encode>(out: &mut Writer, items: &[T]) {
    out.varint(items.len() as u64);
    items.iter().for_each(|item| item.encode(out));
}

pub(super) fn list<T: Encode>(input: &mut Reader, what: &'static str, most: usize) -> Result<Vec<T>, DecodeError> {
    let count = bounded(input, what, most)?;
    (0..count).map(|_| T::decode(input)).collect()
}

fn put_version(out: &mut Writer, version: Option<u64>) {
    out.option(version, |out, version| {
        out.u64(version);
    });
}

fn version(input: &mut Reader) -> Result<Option<u64>, DecodeError> {
    input.option("expected version", |input| input.u64("expected version"))
}

impl Encode for ClusterState {
    fn encode(&self, out: &mut Writer) {
        out.u8(*self as u8);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("cluster state")? {
            1 => ClusterState::Creating,
            2 => ClusterState::Active,
            3 => ClusterState::Deleting,
            _ => return Err(DecodeError::Unknown("cluster state")),
        })
    }
}

impl Encode for ClusterMember {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.replica.0).u64(self.node.0).u64(self.disk.0).bool(self.learner);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ClusterMember {
            replica: ReplicaId(input.u64("replica")?),
            node: NodeId(input.u64("node")?),
            disk: DiskId(input.u64("disk")?),
            learner: input.bool("learner")?,
        })
    }
}

impl Encode for ClusterRecord {
    fn encode(&self, out: &mut Writer) {
        out.string(self.name.as_str()).u64(self.cluster.0).u32(self.generation.0);
        out.string(&self.rule).string(&self.engine).u8(self.consistency as u8).u8(self.read_consistency as u8);
        self.state.encode(out);
        put_list(out, &self.members);
        out.u64(self.members_at.0 .0).u64(self.members_at.1 .0).u64(self.created_ms).u64(self.version);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(ClusterRecord {
            name: name(input)?,
            cluster: ClusterId(input.u64("cluster")?),
            generation: generation(input)?,
            rule: input.string("rule")?,
            engine: input.string("engine")?,
            consistency: write_level(input)?,
            read_consistency: read_level(input)?,
            state: ClusterState::decode(input)?,
            members: list(input, "members", MEMBERS_MAX)?,
            members_at: (Term(input.u64("term")?), LogIndex(input.u64("index")?)),
            created_ms: input.u64("created")?,
            version: input.u64("version")?,
        })
    }
}

impl Encode for Document {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.key).u64(self.version).bytes(&self.body);
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Document {
            key: input.bytes("document key")?,
            version: input.u64("document version")?,
            body: input.bytes("document body")?,
        })
    }
}

impl Encode for Command {
    fn encode(&self, out: &mut Writer) {
        match self {
            Command::Create { name, rule, engine, consistency, read_consistency, members } => {
                out.u8(1).string(name.as_str()).string(rule).string(engine);
                put_list(out.u8(*consistency as u8).u8(*read_consistency as u8), members);
            }
            Command::SetState { name, generation, state } => {
                state.encode(out.u8(2).string(name.as_str()).u32(generation.0));
            }
            Command::UpdateMembers { name, generation, members, term, index } => {
                put_list(out.u8(3).string(name.as_str()).u32(generation.0), members);
                out.u64(term.0).u64(index.0);
            }
            Command::SetLevels { name, generation, consistency, read_consistency } => {
                out.u8(4).string(name.as_str()).u32(generation.0);
                out.option(*consistency, |out, level| {
                    out.u8(level as u8);
                });
                out.option(*read_consistency, |out, level| {
                    out.u8(level as u8);
                });
            }
            Command::Delete { name, generation } => {
                out.u8(5).string(name.as_str()).u32(generation.0);
            }
            Command::Purge { name, generation } => {
                out.u8(6).string(name.as_str()).u32(generation.0);
            }
            Command::PutDocument { key, expected_version, body } => {
                put_version(out.u8(7).bytes(key), *expected_version);
                out.bytes(body);
            }
            Command::DeleteDocument { key, expected_version } => put_version(out.u8(8).bytes(key), *expected_version),
            Command::SetEngine { name, generation, engine } => {
                out.u8(9).string(name.as_str()).u32(generation.0).string(engine);
            }
            Command::Recover { recovery } => recovery.encode(out.u8(10)),
            Command::NoteRecovery { recovery } => recovery.encode(out.u8(12)),
            Command::SettleRecovery { name, ended, discarded, whole } => {
                out.u8(11).string(name.as_str()).u32(ended.0).option(*discarded, |out, node| {
                    out.u64(node.0);
                });
                out.bool(*whole);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("reference command")? {
            1 => Command::Create {
                name: name(input)?,
                rule: input.string("rule")?,
                engine: input.string("engine")?,
                consistency: write_level(input)?,
                read_consistency: read_level(input)?,
                members: list(input, "members", MEMBERS_MAX)?,
            },
            2 => Command::SetState {
                name: name(input)?,
                generation: generation(input)?,
                state: ClusterState::decode(input)?,
            },
            3 => Command::UpdateMembers {
                name: name(input)?,
                generation: generation(input)?,
                members: list(input, "members", MEMBERS_MAX)?,
                term: Term(input.u64("term")?),
                index: LogIndex(input.u64("index")?),
            },
            4 => Command::SetLevels {
                name: name(input)?,
                generation: generation(input)?,
                consistency: input.option("consistency", write_level)?,
                read_consistency: input.option("read consistency", read_level)?,
            },
            5 => Command::Delete { name: name(input)?, generation: generation(input)? },
            6 => Command::Purge { name: name(input)?, generation: generation(input)? },
            7 => Command::PutDocument {
                key: input.bytes("document key")?,
                expected_version: version(input)?,
                body: input.bytes("document body")?,
            },
            8 => Command::DeleteDocument { key: input.bytes("document key")?, expected_version: version(input)? },
            9 => Command::SetEngine {
                name: name(input)?,
                generation: generation(input)?,
                engine: input.string("engine")?,
            },
            10 => Command::Recover { recovery: Box::new(Recovery::decode(input)?) },
            12 => Command::NoteRecovery { recovery: Box::new(Recovery::decode(input)?) },
            11 => Command::SettleRecovery {
                name: name(input)?,
                ended: generation(input)?,
                discarded: input.option("discarded", |input| Ok(NodeId(input.u64("node")?)))?,
                whole: input.bool("whole")?,
            },
            _ => return Err(DecodeError::Unknown("reference command")),
        })
    }
}

impl Encode for Query {
    fn encode(&self, out: &mut Writer) {
        match self {
            Query::Resolve { name } => {
                out.u8(1).string(name.as_str());
            }
            Query::ResolveId { cluster } => {
                out.u8(2).u64(cluster.0);
            }
            Query::List { prefix, start_after, limit } => {
                out.u8(3).string(prefix).option(start_after.as_ref(), |out, after| {
                    out.string(after);
                });
                out.u32(*limit);
            }
            Query::Unfinished { limit } => {
                out.u8(4).u32(*limit);
            }
            Query::GetDocument { key } => {
                out.u8(5).bytes(key);
            }
            Query::ListDocuments { prefix, start_after, limit } => {
                out.u8(6).bytes(prefix).option(start_after.as_ref(), |out, after| {
                    out.bytes(after);
                });
                out.u32(*limit);
            }
            Query::Buried { lives } => {
                out.u8(7).varint(lives.len() as u64);
                for (name, generation, cluster) in lives {
                    out.string(name.as_str()).u32(generation.0).u64(cluster.0);
                }
            }
            Query::Outdated { members } => {
                out.u8(8).varint(members.len() as u64);
                for (name, generation, digest) in members {
                    out.string(name.as_str()).u32(generation.0).u64(*digest);
                }
            }
            Query::Recoveries { name, start_after, limit } => {
                out.u8(9).option(name.as_ref(), |out, name| {
                    out.string(name.as_str());
                });
                out.option(start_after.as_ref(), |out, (name, ended)| {
                    out.string(name.as_str()).u32(ended.0);
                });
                out.u32(*limit);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("reference query")? {
            1 => Query::Resolve { name: name(input)? },
            2 => Query::ResolveId { cluster: ClusterId(input.u64("cluster")?) },
            3 => Query::List {
                prefix: input.string("prefix")?,
                start_after: input.option("start after", |input| input.string("start after"))?,
                limit: input.u32("limit")?,
            },
            4 => Query::Unfinished { limit: input.u32("limit")? },
            5 => Query::GetDocument { key: input.bytes("document key")? },
            6 => Query::ListDocuments {
                prefix: input.bytes("prefix")?,
                start_after: input.option("start after", |input| input.bytes("start after"))?,
                limit: input.u32("limit")?,
            },
            7 => {
                let count = bounded(input, "lives", LIVES_MAX)?;
                let life = |_| Ok((name(input)?, generation(input)?, ClusterId(input.u64("cluster")?)));
                Query::Buried { lives: (0..count).map(life).collect::<Result<_, DecodeError>>()? }
            }
            8 => {
                let count = bounded(input, "lives", LIVES_MAX)?;
                let told = |_| Ok((name(input)?, generation(input)?, input.u64("members")?));
                Query::Outdated { members: (0..count).map(told).collect::<Result<_, DecodeError>>()? }
            }
            9 => Query::Recoveries {
                name: input.option("name", name)?,
                start_after: input.option("start after", |input| Ok((name(input)?, generation(input)?)))?,
                limit: input.u32("limit")?,
            },
            _ => return Err(DecodeError::Unknown("reference query")),
        })
    }
}

impl Encode for Reply {
    fn encode(&self, out: &mut Writer) {
        match self {
            Reply::Done => {
                out.u8(1);
            }
            Reply::Record { record } => record.encode(out.u8(2)),
            Reply::Resolved { record, last_generation } => {
                out.u8(3).option(record.as_ref(), |out, record| record.encode(out));
                out.u32(last_generation.0);
            }
            Reply::Records { records, more } => {
                put_list(out.u8(4), records);
                out.bool(*more);
            }
            Reply::Version { version } => {
                out.u8(5).u64(*version);
            }
            Reply::Deleted { existed } => {
                out.u8(6).bool(*existed);
            }
            Reply::Document { document } => {
                out.u8(7).option(document.as_ref(), |out, document| document.encode(out));
            }
            Reply::Documents { documents, more } => {
                put_list(out.u8(8), documents);
                out.bool(*more);
            }
            Reply::Buried { places, ended } => {
                out.u8(9).varint(places.len() as u64);
                places.iter().for_each(|place| {
                    out.u32(*place);
                });
                out.varint(ended.len() as u64);
                ended.iter().for_each(|(place, by)| {
                    out.u32(*place).u32(by.0);
                });
            }
            Reply::Recoveries { recoveries, more } => {
                put_list(out.u8(11), recoveries);
                out.bool(*more);
            }
            Reply::Outdated { places } => {
                out.u8(10).varint(places.len() as u64);
                places.iter().for_each(|place| {
                    out.u32(*place);
                });
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("reference reply")? {
            1 => Reply::Done,
            2 => Reply::Record { record: ClusterRecord::decode(input)? },
            3 => Reply::Resolved {
                record: input.option("record", ClusterRecord::decode)?,
                last_generation: generation(input)?,
            },
            4 => Reply::Records { records: list(input, "records", LIST_PAGE_MAX as usize)?, more: input.bool("more")? },
            5 => Reply::Version { version: input.u64("version")? },
            6 => Reply::Deleted { existed: input.bool("existed")? },
            7 => Reply::Document { document: input.option("document", Document::decode)? },
            8 => Reply::Documents {
                documents: list(input, "documents", LIST_PAGE_MAX as usize)?,
                more: input.bool("more")?,
            },
            9 => {
                let count = bounded(input, "places", LIVES_MAX)?;
                let places = (0..count).map(|_| input.u32("place")).collect::<Result<_, _>>()?;
                let count = bounded(input, "ended lives", LIVES_MAX)?;
                let life = |_| Ok((input.u32("place")?, generation(input)?));
                Reply::Buried { places, ended: (0..count).map(life).collect::<Result<_, DecodeError>>()? }
            }
            11 => Reply::Recoveries {
                recoveries: list(input, "recoveries", LIST_PAGE_MAX as usize)?,
                more: input.bool("more")?,
            },
            10 => {
                let count = bounded(input, "places", LIVES_MAX)?;
                Reply::Outdated { places: (0..count).map(|_| input.u32("place")).collect::<Result<_, _>>()? }
            }
            _ => return Err(DecodeError::Unknown("reference reply")),
        })
    }
}
