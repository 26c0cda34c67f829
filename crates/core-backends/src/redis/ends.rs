//! Which reads may see that a key has expired, although no entry has the time at which it did.
//!
//! A leader's clock runs on between entries, and the next leader's begins where the last entry had it. What such a read shows to be gone
//! would be there again. So the cluster answers it after an entry (core-cluster, `reads.rs`).
//!
//! By design: a command that does not name all its keys (KEYS, SCAN, SORT_RO) may see any key. Most reads name theirs and see none that
//! has just expired, so they do not wait.
//! Not here: the removal of what has expired (`store.rs`).

use super::store::{any_ends, Moment, View};
use super::{Command, Fail};
use crate::contract::{decode, SpaceRead};
use base_engine::EngineError;
use base_types::redis::{KeyVersion, RedisAsk, RedisCall, RedisCommand};
use bytes::Bytes;

/// Whether a query may see a key's end that is after the first of these times, and not after the second.
pub(super) fn ends_between(space: &dyn SpaceRead, query: &Bytes, times: (u64, u64)) -> Result<bool, EngineError> {
    if !any_ends(space, times)? {
        return Ok(false);
    }
    let Some(keys) = keys_of(query) else { return Ok(true) };
    let mut view = View::open(space, Moment::new(times.0, 0, 0))?;
    for (database, key) in keys {
        view.select(database);
        match view.find(&key) {
            Ok(Some(meta)) if meta.expires_ms != 0 && meta.expires_ms <= times.1 => return Ok(true),
            // A name that is too long: no such key can be there.
            Ok(_) | Err(Fail::Redis(_)) => {}
            Err(Fail::Engine(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// The keys that a query may show. None: it may show any.
fn keys_of(query: &Bytes) -> Option<Vec<(u8, Bytes)>> {
    if !RedisCall::is_call(query) {
        let Command(words) = decode::<Command>("redis query", query).ok()?;
        return of_commands(&[RedisCommand { database: 0, words }]);
    }
    let versions = |keys: &[KeyVersion]| keys.iter().map(|key| (key.database, key.key.clone())).collect::<Vec<_>>();
    match decode::<RedisCall>("redis call", query).ok()?.ask {
        RedisAsk::Commands { commands } => of_commands(&commands),
        RedisAsk::Transaction { watched, commands } | RedisAsk::Try { watched, commands, .. } => {
            let mut keys = of_commands(&commands)?;
            keys.extend(versions(&watched));
            Some(keys)
        }
        RedisAsk::Versions { keys } | RedisAsk::AwaitKeys { keys } => Some(versions(&keys)),
        // The last two are no queries: an entry has its own time.
        RedisAsk::Messages { .. } | RedisAsk::Script { .. } | RedisAsk::Sweep => Some(Vec::new()),
    }
}

fn of_commands(commands: &[RedisCommand]) -> Option<Vec<(u8, Bytes)>> {
    let mut all = Vec::new();
    for command in commands {
        let keys = command.keys();
        // Patterns of SORT name more.
        let sorts = command.words.first().is_some_and(|name| name.to_ascii_lowercase().starts_with(b"sort"));
        if keys.is_empty() || sorts {
            return None;
        }
        all.extend(keys.into_iter().map(|key| (command.database, key.clone())));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{run, words};
    use super::*;
    use crate::testing::MapSpace;
    use base_types::codec::Encode;

    #[test]
    fn reads_of_keys_that_end_and_no_others() {
        let mut space = MapSpace::default();
        run(&mut space, 1_000, "SET k v PX 100");
        run(&mut space, 1_000, "SET other v PX 900");
        let plain =
            |space: &MapSpace, line: &str, times| ends_between(space, &Command(words(line)).to_bytes(), times).unwrap();
        for (times, ends) in
            [((1_050, 1_099), false), ((1_050, 1_100), true), ((1_099, 1_500), true), ((1_100, 1_200), false)]
        {
            for line in ["GET k", "MGET free k", "KEYS *", "SORT_RO free BY *"] {
                assert_eq!(plain(&space, line, times), ends, "{line} {times:?}");
            }
            assert!(!plain(&space, "MGET other free", times));
            let key = |key: &str| KeyVersion { database: 0, key: Bytes::copy_from_slice(key.as_bytes()), version: 0 };
            for (keys, shown) in [(vec![key("k")], ends), (vec![key("other")], false)] {
                let call = RedisCall { unix_ms: 0, seed: 0, ask: RedisAsk::Versions { keys } }.to_bytes();
                assert_eq!(ends_between(&space, &call, times).unwrap(), shown);
            }
        }
        run(&mut space, 1_000, "PERSIST k");
        assert!(!plain(&space, "GET k", (1_050, 1_500)) && !plain(&space, "KEYS *", (1_050, 1_500)));
    }
}
