//! Commands of every kind in any order, told to shards in any state: refused or done, never damage.

use super::bed::*;
use crate::shard::*;
use base_types::s3::{Version, VersionStamp};
use bytes::Bytes;

fn range(random: &mut Random) -> Range {
    let bounds = ["", "a", "b", "é"];
    let start = Bytes::from_static(random.pick(&bounds).as_bytes());
    let end = Some(Bytes::from_static(random.pick(&bounds).as_bytes())).filter(|end| *end > start);
    Range { start, end }
}

fn peers(random: &mut Random) -> Vec<Peer> {
    (0..random.below(3)).map(|shard| Peer { shard, epoch: random.below(3), range: range(random) }).collect()
}

fn cursor(random: &mut Random) -> ImportCursor {
    ImportCursor { after: Bytes::new(), copied: random.below(2) == 0, feed: random.below(3) }
}

fn of_flows(random: &mut Random, bed: &Bed, other: &Bed) -> Command {
    let epoch = random.below(3);
    let pin = u128::from(random.below(3));
    match random.below(18) {
        0 | 1 => Command::Create { epoch, range: range(random) },
        2 | 3 => Command::PrepareImport { epoch, range: range(random), sources: peers(random) },
        4..=6 => {
            let rows = other.content().into_iter().filter(|_| random.below(3) == 0);
            let rows = rows.map(|(key, row)| (key, Some(row))).collect();
            let (expected, cursor) = (cursor(random), cursor(random));
            Command::Import { epoch, source: random.below(2) as u16, expected, cursor, rows }
        }
        7 => Command::Activate { epoch, stamp_floor: random.below(1 << 40) },
        8 => Command::BeginSplit { epoch, targets: peers(random) },
        9 => Command::AbortSplit { epoch },
        10 => Command::Digest { epoch, limit: random.below(9) as u32 },
        11 => Command::Freeze { epoch, lease_ms: random.below(9) as u32 },
        12 => Command::Unfreeze { epoch },
        13 => Command::CutOver { epoch, feed: bed.now_ms % 4, digests: Vec::new() },
        14 => Command::Drop { epoch, limit: random.below(20) as u32, force: random.below(2) == 0 },
        15 => Command::PinPrepare { epoch, pin, freeze_ms: random.below(5) as u32, keep_ms: random.below(100) },
        16 => Command::PinCommit { pin },
        _ if random.below(2) == 0 => Command::Unpin { pin },
        _ => Command::Sweep { limit: random.below(9) as u32 },
    }
}

fn of_clients(random: &mut Random, bed: &Bed) -> Command {
    let epoch = random.below(3);
    let versioning = *random.pick(&[Versioning::Unversioned, Versioning::Enabled, Versioning::Suspended]);
    let key = random.key();
    let stamp = VersionStamp(bed.now_ms << 16 | random.below(2));
    let version = *random.pick(&[Version::Current, Version::Null, Version::Stamp(stamp)]);
    let terms = DeleteTerms { epoch, ..bed.terms(versioning) };
    let step = || DeleteStep { key: key.clone().into(), version, condition: Condition::default() };
    match random.below(8) {
        0..=3 => {
            let once = Some(u128::from(random.below(3))).filter(|token| *token > 0);
            let step = PutStep { epoch, once, ..bed.put_step(&key, versioning, random.below(200)) };
            Command::Put { step }
        }
        4 => Command::Delete { terms, step: step() },
        5 if random.below(2) == 0 => Command::DeleteMany { terms, steps: vec![step(), step()] },
        5 => Command::DeleteEach { terms, steps: vec![step(), step()], ids: vec![1, 2] },
        6 => Command::Update {
            epoch,
            key: key.clone().into(),
            version,
            changes: vec![(random.below(40) as u16, Some(Bytes::from_static(b"\x05"))), (2, None)],
            at_unix_ms: bed.now_ms,
            bypass_governance: false,
            condition: Condition::default(),
        },
        _ => Command::Forget { epoch, key: key.clone().into(), token: 1 },
    }
}

/// `Bed::tell` fails the test on damage.
#[test]
fn no_order_of_commands_is_damage() {
    let mut other = Bed::serving();
    let mut random = Random(21);
    for at in 0..60 {
        other.put(&random.key(), Versioning::Enabled, at).unwrap();
    }
    let mut served = 0;
    for seed in 0..24 {
        let (mut random, mut bed) = (Random(seed), Bed::blank());
        for _ in 0..150 {
            bed.now_ms += random.below(10);
            let flows = random.below(4) == 0;
            let command = if flows { of_flows(&mut random, &bed, &other) } else { of_clients(&mut random, &bed) };
            let _ = bed.tell(command);
            bed.epoch = random.below(3);
            let limit = 1 + random.below(4) as u32;
            let pin = Some(u128::from(random.below(3))).filter(|_| random.below(2) == 0);
            let delimiter = if random.below(2) == 0 { "" } else { "/" };
            let listing = Listing { limit, pin, ..bed.listing("", delimiter) };
            served += u64::from(bed.page(listing, random.below(2) == 0).is_ok());
            for query in [
                Query::Count { epoch: bed.epoch, prefix: random.key().into(), pin },
                Query::CutPoints { epoch: bed.epoch, parts: 3, by_rows: random.below(2) == 0 },
                Query::Export { epoch: bed.epoch, range: range(&mut random), after: Bytes::new(), bytes_max: 99 },
                Query::Feed { epoch: bed.epoch, range: range(&mut random), after: random.below(9), limit: 3 },
            ] {
                let _ = bed.ask(query);
            }
        }
        let Ok(Reply::Shard { info }) = bed.ask(Query::Describe) else { continue };
        if matches!(info.state, ShardState::Serving | ShardState::Splitting) {
            bed.epoch = info.epoch;
            assert_eq!(bed.count("", None).rows(), bed.walk(bed.listing("", ""), true, 50).len() as u64);
        }
    }
    assert!(served > 300, "only {served} listings were answered");
}
