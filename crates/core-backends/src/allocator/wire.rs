//! The byte forms of the allocator's commands, queries and replies: a tag, then the fields in order.

use super::*;

pub(super) fn nodes(input: &mut Reader, most: usize) -> Result<Vec<NodeId>, DecodeError> {
    let count = bounded(input, "nodes", most)?;
    (0..count).map(|_| Ok(NodeId(input.u64("node")?))).collect()
}

fn bounded(input: &mut Reader, what: &'static str, most: usize) -> Result<usize, DecodeError> {
    let count = input.count(what)?;
    if count > most {
        return Err(DecodeError::TooLarge(what));
    }
    Ok(count)
}

fn small(input: &mut Reader, what: &'static str) -> Result<u32, DecodeError> {
    u32::try_from(input.varint(what)?).map_err(|_| DecodeError::TooLarge(what))
}

fn put_nodes(out: &mut Writer, nodes: &[NodeId]) {
    out.varint(nodes.len() as u64);
    for node in nodes {
        out.u64(node.0);
    }
}

fn put_records(out: &mut Writer, records: &[NodeRecord]) {
    out.varint(records.len() as u64);
    for record in records {
        record.encode(out);
    }
}

fn records(input: &mut Reader) -> Result<Vec<NodeRecord>, DecodeError> {
    let count = bounded(input, "records", NODES_PAGE_MAX as usize)?;
    (0..count).map(|_| NodeRecord::decode(input)).collect()
}

impl Encode for Report {
    fn encode(&self, out: &mut Writer) {
        out.u64(self.node.0).bool(self.up);
        out.varint(self.score.into()).varint(self.clusters.into()).varint(self.leaders.into());
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Report {
            node: NodeId(input.u64("node")?),
            up: input.bool("up")?,
            score: small(input, "score")?,
            clusters: small(input, "clusters")?,
            leaders: small(input, "leaders")?,
        })
    }
}

impl Encode for Command {
    fn encode(&self, out: &mut Writer) {
        match self {
            Command::Register { record } => record.encode(out.u8(1)),
            Command::Report { updates } => {
                out.u8(2).varint(updates.len() as u64);
                updates.iter().for_each(|update| update.encode(out));
            }
            Command::Forget { node } => {
                out.u8(3).u64(node.0);
            }
            Command::Drain { node, draining } => {
                out.u8(4).u64(node.0).bool(*draining);
            }
            Command::RaiseLevel { level } => {
                out.u8(5).u16(level.0);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("allocator command")? {
            1 => Command::Register { record: NodeRecord::decode(input)? },
            2 => {
                let count = bounded(input, "reports", REPORTS_MAX)?;
                Command::Report { updates: (0..count).map(|_| Report::decode(input)).collect::<Result<_, _>>()? }
            }
            3 => Command::Forget { node: NodeId(input.u64("node")?) },
            4 => Command::Drain { node: NodeId(input.u64("node")?), draining: input.bool("draining")? },
            5 => Command::RaiseLevel { level: FormatLevel(input.u16("format level")?) },
            _ => return Err(DecodeError::Unknown("allocator command")),
        })
    }
}

impl Encode for Query {
    fn encode(&self, out: &mut Writer) {
        match self {
            Query::Elect { rule, exclude, spread } => {
                put_nodes(out.u8(1).string(rule), exclude);
                out.u64(*spread);
            }
            Query::ElectReplacement { rule, members, lost, spread } => {
                put_nodes(out.u8(2).string(rule), members);
                out.u64(lost.0).u64(*spread);
            }
            Query::NodesSince { version, limit } => {
                out.u8(3).u64(*version).u32(*limit);
            }
            Query::Node { node } => {
                out.u8(4).u64(node.0);
            }
            Query::Draining => {
                out.u8(5);
            }
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("allocator query")? {
            1 => Query::Elect {
                rule: input.string("rule")?,
                exclude: nodes(input, EXCLUDE_MAX)?,
                spread: input.u64("spread")?,
            },
            2 => Query::ElectReplacement {
                rule: input.string("rule")?,
                members: nodes(input, EXCLUDE_MAX)?,
                lost: NodeId(input.u64("lost node")?),
                spread: input.u64("spread")?,
            },
            3 => Query::NodesSince { version: input.u64("version")?, limit: input.u32("limit")? },
            4 => Query::Node { node: NodeId(input.u64("node")?) },
            5 => Query::Draining,
            _ => return Err(DecodeError::Unknown("allocator query")),
        })
    }
}

impl Encode for Reply {
    fn encode(&self, out: &mut Writer) {
        match self {
            Reply::Done { version } => {
                out.u8(1).u64(*version);
            }
            Reply::Elected { nodes } => put_records(out.u8(2), nodes),
            Reply::Nodes { records, forgotten, version, more, level } => {
                put_records(out.u8(3), records);
                put_nodes(out, forgotten);
                out.u64(*version).bool(*more).u16(level.0);
            }
            Reply::Node { record } => {
                out.u8(4).option(record.as_ref(), |out, record| record.encode(out));
            }
            Reply::Draining { nodes } => put_nodes(out.u8(5), nodes),
        }
    }

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match input.u8("allocator reply")? {
            1 => Reply::Done { version: input.u64("version")? },
            2 => Reply::Elected { nodes: records(input)? },
            3 => Reply::Nodes {
                records: records(input)?,
                forgotten: nodes(input, NODES_PAGE_MAX as usize)?,
                version: input.u64("version")?,
                more: input.bool("more")?,
                level: FormatLevel(input.u16("format level")?),
            },
            4 => Reply::Node { record: input.option("node", NodeRecord::decode)?.map(Box::new) },
            5 => Reply::Draining { nodes: nodes(input, core_placement::MAP_NODES_MAX)? },
            _ => return Err(DecodeError::Unknown("allocator reply")),
        })
    }
}
