//! What shards of buckets do, in the words of the checker (`proof_check::shards`).
//!
//! Always: told behind the turn that applied it, before its replies and messages leave: who could act on it has not heard.
//! Not here: what is right.

use super::World;
use base_types::codec::Encode;
use base_types::ClusterName;
use core_backends::shard::{Command, Reply, ShardInfo, ShardState};
use core_cluster::api::Witnessed;
use proof_check::shards::{Deed, Stand};

impl World {
    /// Commands that replicas here have applied.
    pub(super) fn note_shards(&mut self, witnessed: Vec<Witnessed>) {
        for entry in witnessed.chunk_by(|one, two| (one.cluster, one.index) == (two.cluster, two.index)) {
            let Some(first) = entry.first() else { continue };
            let news = self.shards.is_news(first.cluster, first.generation, first.index);
            let Some((bucket, shard)) = shard_of(&first.name).filter(|_| news) else { continue };
            for deed in entry.iter().flat_map(deeds) {
                let found = self.shards.note(bucket, shard, deed);
                found.into_iter().for_each(|violation| self.violate(violation));
            }
        }
    }
}

/// `shard@<bucket>-<number>`
fn shard_of(name: &ClusterName) -> Option<(&str, u64)> {
    let (bucket, number) = name.as_str().strip_prefix("shard@")?.rsplit_once('-')?;
    Some((bucket, number.parse().ok()?))
}

/// What a shard did by a command: nothing, where it refused it.
fn deeds(witnessed: &Witnessed) -> Vec<Deed> {
    let reply = core_backends::decode_reply::<Reply>(witnessed.reply.clone());
    let (Ok(command), Ok(reply)) = (Command::from_bytes(witnessed.command.clone()), reply) else { return Vec::new() };
    match (command, reply) {
        (Command::Put { .. } | Command::PutWithin { .. }, Reply::PutRefused { .. }) => Vec::new(),
        (Command::Put { step } | Command::PutWithin { step, .. }, _) => {
            vec![Deed::Took { epoch: step.epoch, key: step.key }]
        }
        (Command::Delete { terms, step }, _) => vec![Deed::Took { epoch: terms.epoch, key: step.key }],
        (Command::DeleteMany { terms, steps } | Command::DeleteEach { terms, steps, .. }, _) => {
            steps.into_iter().map(|step| Deed::Took { epoch: terms.epoch, key: step.key }).collect()
        }
        (Command::Update { epoch, key, .. } | Command::Forget { epoch, key, .. }, _) => vec![Deed::Took { epoch, key }],
        (Command::Drop { .. }, _) => vec![Deed::Gone],
        (_, Reply::Shard { info }) => vec![Deed::Stands(stand(info))],
        _ => Vec::new(),
    }
}

fn stand(info: ShardInfo) -> Stand {
    let serves = matches!(info.state, ShardState::Serving | ShardState::Splitting);
    Stand { serves, epoch: info.epoch, start: info.range.start, end: info.range.end }
}
