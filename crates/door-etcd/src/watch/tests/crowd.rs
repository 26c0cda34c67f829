//! Ten thousand watchers, half of them stalled.

use super::bed::*;
use crate::watch::Settings;
use std::sync::atomic::Ordering::Relaxed;

const STREAMS: usize = 200;
const WATCHES: usize = 50;
const ROUNDS: usize = 6;
/// Streams of the stalled that take again.
const RESUMED: usize = 2;
const QUEUE: usize = 4;

fn key(stream: usize, watch: usize) -> String {
    format!("k/{stream:03}/{watch:02}")
}

async fn events(client: &mut Client, count: usize) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    while found.len() < count {
        let message = client.next().await;
        found.extend(message.events.iter().map(|event| (message.watch_id, event.kv.as_ref().unwrap().mod_revision)));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn stalled_watchers_cost_their_position_and_hold_up_nobody() {
    let recent_bytes_max = 200_000;
    let bed = Bed::with(Settings { recent_bytes_max, queue_revisions_max: QUEUE, ..Settings::default() });
    let mut clients = Vec::new();
    for stream in 0..STREAMS {
        let mut client = bed.client();
        for watch in 0..WATCHES {
            client.create(on(&key(stream, watch)));
        }
        for watch in 0..WATCHES {
            assert_eq!(client.next().await.watch_id, watch as i64);
        }
        clients.push(client);
    }
    assert_eq!(bed.hubs.figures().watchers, STREAMS * WATCHES);
    let mut stalled = clients.split_off(STREAMS / 2);
    for round in 0..ROUNDS {
        for stream in 0..STREAMS {
            // A commit has the keys of one stream, and its client takes if it is not stalled.
            let puts = (0..WATCHES).map(|watch| put(&key(stream, watch), &round.to_string()));
            bed.commit(puts.collect()).await;
            let Some(client) = clients.get_mut(stream) else {
                tokio::time::sleep(std::time::Duration::from_millis(30)).await;
                continue;
            };
            let found = events(client, WATCHES).await;
            let mut ids: Vec<_> = found.iter().map(|(id, _)| *id).collect();
            ids.sort_unstable();
            assert_eq!(ids, (0..WATCHES as i64).collect::<Vec<_>>(), "each of its watches has this round");
        }
        let figures = bed.hubs.figures();
        assert!(figures.recent_bytes <= recent_bytes_max + 60_000, "more than the bound and a revision: {figures:?}");
        assert!(figures.queued <= STREAMS * WATCHES * QUEUE, "{figures:?}");
    }
    let figures = bed.hubs.figures();
    assert!(figures.behind >= STREAMS * WATCHES / 2 - STREAMS, "all but the one whose message waits: {figures:?}");
    assert_eq!(bed.store.caught_up.load(Relaxed), 0, "nobody who does not take reads");
    // They take again: nothing is lost, nothing comes twice.
    for client in stalled.iter_mut().take(RESUMED) {
        let found = events(client, WATCHES * ROUNDS).await;
        for watch in 0..WATCHES as i64 {
            let mut revisions = found.iter().filter(|(id, _)| *id == watch).map(|(_, revision)| *revision);
            let first = revisions.next().unwrap();
            let later = (1..ROUNDS as i64).map(|round| first + round * STREAMS as i64);
            assert!(revisions.eq(later), "watch {watch} from {first}");
        }
    }
}
