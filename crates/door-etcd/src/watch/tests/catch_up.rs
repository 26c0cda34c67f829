//! Watchers that are late: starts in the past, stalls, compaction, a node that is cut off, hubs that end and begin.

use super::bed::*;
use crate::proto::etcdserverpb::WatchCreateRequest;
use crate::watch::Settings;
use std::sync::atomic::Ordering::Relaxed;

fn small() -> Settings {
    Settings { recent_bytes_max: 2_000, queue_revisions_max: 4, ..Settings::default() }
}

/// The revisions that a client is sent for a watch, until nothing comes.
async fn revisions(client: &mut Client) -> Vec<i64> {
    let mut found = Vec::new();
    while let Some(message) = client.soon().await {
        found.extend(message.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision));
    }
    found
}

#[tokio::test(start_paused = true)]
pub async fn start_in_the_past_reads_history_then_joins() {
    let bed = Bed::new();
    for at in 0..500 {
        bed.put(if at % 2 == 0 { "a" } else { "b" }, "1").await;
    }
    let mut client = bed.client();
    client.created(WatchCreateRequest { start_revision: 102, ..on("a") }).await;
    for _ in 0..10 {
        bed.put("a", "2").await;
    }
    let wanted: Vec<_> = (102..=501).step_by(2).chain(502..=511).collect();
    assert_eq!(revisions(&mut client).await, wanted);
    let reads = bed.store.caught_up.load(Relaxed);
    bed.put("a", "3").await;
    assert_eq!(revisions(&mut client).await, [512]);
    assert_eq!(bed.store.caught_up.load(Relaxed), reads, "it has joined");
}

#[tokio::test(start_paused = true)]
pub async fn stalled_watcher_is_taken_off_and_misses_nothing() {
    let bed = Bed::with(small());
    let (mut stalled, mut lively) = (bed.client(), bed.client());
    stalled.created(on("a")).await;
    lively.created(on("a")).await;
    for at in 0..200 {
        bed.put("a", "1").await;
        assert_eq!(shown(&lively.next().await), format!("{} a=1", at + 2));
    }
    let figures = bed.hubs.figures();
    assert_eq!((figures.behind, figures.watchers, figures.stalls), (1, 2, 1));
    assert!(figures.queued <= 4 && figures.recent_bytes <= 2_200, "{figures:?}");
    assert_eq!(bed.store.caught_up.load(Relaxed), 0, "it reads when its client takes, not before");
    assert_eq!(revisions(&mut stalled).await, (2..=201).collect::<Vec<_>>());
    assert_eq!(bed.hubs.figures().behind, 0);
}

#[tokio::test(start_paused = true)]
pub async fn slightly_late_watcher_is_served_from_what_is_recent() {
    let bed = Bed::with(Settings { queue_revisions_max: 4, ..Settings::default() });
    let mut client = bed.client();
    client.created(on("a")).await;
    for _ in 0..100 {
        bed.put("a", "1").await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(bed.hubs.figures().stalls, 1);
    assert_eq!(revisions(&mut client).await, (2..=101).collect::<Vec<_>>());
    assert_eq!(bed.store.caught_up.load(Relaxed), 0, "the ring had it");
}

#[tokio::test(start_paused = true)]
pub async fn stalled_watcher_whose_history_was_compacted_is_cancelled() {
    let bed = Bed::with(small());
    let (mut stalled, mut lively) = (bed.client(), bed.client());
    stalled.created(on("a")).await;
    lively.created(on("a")).await;
    for _ in 0..50 {
        bed.put("a", "1").await;
        lively.next().await;
    }
    bed.compact(31).await;
    let mut got = Vec::new();
    let ended = loop {
        let message = stalled.next().await;
        if message.canceled {
            break message;
        }
        got.extend(message.events.iter().map(|event| event.kv.as_ref().unwrap().mod_revision));
    };
    assert_eq!(got, (2..2 + got.len() as i64).collect::<Vec<_>>(), "what came was in order");
    assert!(got.len() < 30 && ended.compact_revision == 31, "{ended:?} after {got:?}");
    // The other lost nothing by it.
    bed.put("a", "2").await;
    assert_eq!(shown(&lively.next().await), "52 a=2");
}

/// What it did not want counts as seen: a compaction there does not end it. Found by the model.
#[tokio::test(start_paused = true)]
pub async fn watcher_that_falls_behind_keeps_how_far_it_came() {
    let bed = Bed::with(small());
    let mut client = bed.client();
    client.created(on("a")).await;
    for _ in 0..5 {
        bed.put("b", "x").await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    client.ask_progress();
    assert_eq!(revision_of(&client.next().await), 6);
    // The follower gets more revisions at once than wait for a watcher, after their start was compacted.
    bed.store.lag_at.store(6, Relaxed);
    for _ in 0..30 {
        bed.put("a", "1").await;
    }
    bed.compact(6).await;
    bed.store.lag_at.store(0, Relaxed);
    assert_eq!(revisions(&mut client).await, (7..=36).collect::<Vec<_>>());
    assert!(bed.hubs.figures().stalls > 0);
}

#[tokio::test(start_paused = true)]
pub async fn node_that_was_cut_off_goes_on_without_a_gap() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.created(on("a")).await;
    bed.put("a", "1").await;
    assert_eq!(revisions(&mut client).await, [2]);
    bed.store.cut.store(true, Relaxed);
    for _ in 0..5 {
        bed.put("a", "2").await;
    }
    assert_eq!(revisions(&mut client).await, [0i64; 0]);
    bed.store.cut.store(false, Relaxed);
    assert_eq!(revisions(&mut client).await, [3, 4, 5, 6, 7]);
}

#[tokio::test(start_paused = true)]
pub async fn compaction_while_cut_off_ends_those_that_miss_something() {
    let bed = Bed::new();
    let (mut client, mut future) = (bed.client(), bed.client());
    client.created(on("a")).await;
    future.created(WatchCreateRequest { start_revision: 7, ..on("a") }).await;
    bed.store.cut.store(true, Relaxed);
    for _ in 0..5 {
        bed.put("a", "1").await;
    }
    bed.compact(5).await;
    bed.store.cut.store(false, Relaxed);
    let ended = client.next().await;
    assert!(ended.canceled && ended.compact_revision == 5, "{ended:?}");
    bed.put("a", "2").await;
    assert_eq!(shown(&future.next().await), "7 a=2", "it misses nothing");
}

#[tokio::test(start_paused = true)]
pub async fn follower_ends_with_the_last_watcher_and_begins_again() {
    let bed = Bed::new();
    let mut client = bed.client();
    client.created(on("a")).await;
    assert_eq!(bed.hubs.figures().hubs, 1);
    client.cancel(0);
    assert!(client.next().await.canceled);
    assert_eq!(bed.hubs.figures().hubs, 0);
    let reads = bed.store.followed.load(Relaxed);
    bed.put("a", "1").await;
    assert_eq!(client.soon().await, None);
    assert_eq!(bed.store.followed.load(Relaxed), reads, "nobody follows");
    client.created(on("a")).await;
    bed.put("a", "2").await;
    assert_eq!(revisions(&mut client).await, [3]);
    drop(client);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(bed.hubs.figures(), crate::watch::Figures::default(), "a client that is gone leaves nothing");
}

/// Clients that watch a key each from the beginning, all at once; what each is sent, and the reads of the store that it took.
async fn late(bed: &Bed, count: usize, keys: usize) -> (Vec<Vec<i64>>, u64) {
    let before = bed.store.caught_up.load(Relaxed);
    let mut clients: Vec<_> = (0..count).map(|_| bed.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.create(WatchCreateRequest { start_revision: 2, ..on(&format!("k{:02}", number % keys)) });
    }
    let all = clients.iter_mut().map(|client| async move {
        assert!(client.next().await.created);
        revisions(client).await
    });
    let found = futures::future::join_all(all).await;
    (found, bed.store.caught_up.load(Relaxed) - before)
}

#[tokio::test(start_paused = true)]
pub async fn thousands_that_are_late_share_their_reads() {
    const KEYS: usize = 40;
    const PUTS: usize = 4_000;
    let bed = Bed::new();
    for at in 0..PUTS {
        bed.put(&format!("k{:02}", at % KEYS), "1").await;
    }
    let (few, alone) = late(&bed, 10, KEYS).await;
    let (many, shared) = late(&bed, 1_000, KEYS).await;
    for (number, got) in few.iter().enumerate().chain(many.iter().enumerate()) {
        let wanted = (number % KEYS..PUTS).step_by(KEYS).map(|at| at as i64 + 2);
        assert!(got.iter().copied().eq(wanted), "watch {number}: {got:?}");
    }
    assert!(alone >= 20, "each reads more than once: {alone}");
    // Each for itself would take 2,000. Some read alone, where few happen to read at the same time.
    assert!(shared < 500, "1,000 took {shared} reads, 10 took {alone}");
    let nothing = crate::watch::Figures::default();
    let gone = async {
        while bed.hubs.figures() != nothing {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(5), gone).await.expect("nothing is kept");
}
