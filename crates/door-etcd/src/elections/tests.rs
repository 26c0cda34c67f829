//! Elections and locks through generated clients: handover, exclusion, ends of leases, calls that are given up.

use crate::proto::v3electionpb::election_client::ElectionClient;
use crate::proto::v3electionpb::{CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest};
use crate::proto::v3lockpb::lock_client::LockClient;
use crate::proto::v3lockpb::{LockRequest, UnlockRequest};
use crate::store::{Session, Store};
use crate::testing::{MemoryStore, NAMESPACE};
use crate::{service, Connection, EtcdService, Limits};
use base_types::access::Caller;
use base_types::versioned::{Command, Query, Read, Reply, Span};
use base_types::ReadConsistency;
use bytes::Bytes;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Longer than anything takes by the clock of a test, which leaps to the next timer.
const PATIENCE: Duration = Duration::from_secs(100);

struct Bed {
    store: Arc<MemoryStore>,
    service: EtcdService,
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.expect("it takes too long")
}

impl Bed {
    fn new() -> Bed {
        let store = Arc::new(MemoryStore::default());
        Bed { service: service(store.clone(), Limits::default()), store }
    }

    fn elections(&self) -> ElectionClient<Connection> {
        ElectionClient::new(Connection::new(&self.service))
    }

    fn locks(&self) -> LockClient<Connection> {
        LockClient::new(Connection::new(&self.service))
    }

    async fn tell(&self, command: Command) -> Reply {
        let session = Session { caller: Caller::Anyone, namespace: NAMESPACE.into() };
        self.store.change(&session, command).await.unwrap().0
    }

    async fn grant(&self, lease: u64, seconds: u64) {
        self.tell(Command::LeaseGrant { lease, ttl_ms: seconds * 1_000 }).await;
    }

    async fn revoke(&self, lease: u64) {
        self.tell(Command::LeaseRevoke { lease, limit: 100 }).await;
    }

    /// The keys that are there.
    async fn keys(&self) -> Vec<String> {
        let session = Session { caller: Caller::Anyone, namespace: NAMESPACE.into() };
        let span = Span::From { start: Bytes::new() };
        let (keys_only, filter) = (true, Default::default());
        let read = Read { span, at: 0, limit: 0, keys_only, count: false, count_only: false, filter };
        match self.store.ask(&session, Query::Read { read, pin: 0 }, ReadConsistency::Strong).await {
            Ok((Reply::Page { page, .. }, _)) => {
                page.rows.iter().map(|pair| String::from_utf8_lossy(&pair.key).into_owned()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// A candidate that waits.
    fn campaign(&self, lease: i64, value: &str) -> JoinHandle<Result<LeaderKey, tonic::Status>> {
        let (mut client, value) = (self.elections(), text(value));
        tokio::spawn(async move {
            let answer = client.campaign(CampaignRequest { name: text("boss"), lease, value }).await?.into_inner();
            Ok(answer.leader.unwrap())
        })
    }

    async fn leader(&self) -> Result<String, tonic::Status> {
        let answer = self.elections().leader(LeaderRequest { name: text("boss") }).await?.into_inner();
        Ok(String::from_utf8_lossy(&answer.kv.unwrap().value).into_owned())
    }
}

/// Lets everybody come as far as they can.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn leadership_passes_on_in_order() {
    let bed = Bed::new();
    let none = bed.leader().await.unwrap_err();
    assert_eq!(none.message(), "election: no leader");
    let mut candidates = Vec::new();
    for lease in 1..=3 {
        bed.grant(lease, 600).await;
        candidates.push(bed.campaign(lease as i64, &format!("c{lease}")));
        settle().await;
    }
    let waiting: Vec<_> = candidates.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(waiting, [true, false, false]);
    let first = soon(candidates.remove(0)).await.unwrap().unwrap();
    assert_eq!((&first.key[..], first.lease, bed.leader().await.unwrap().as_str()), (&b"boss/1"[..], 1, "c1"));

    bed.elections().resign(ResignRequest { leader: Some(first.clone()) }).await.unwrap();
    let second = soon(candidates.remove(0)).await.unwrap().unwrap();
    settle().await;
    assert!(!candidates[0].is_finished(), "two lead");
    assert_eq!((second.lease, bed.leader().await.unwrap().as_str()), (2, "c2"));

    // Who led before changes nothing any more.
    let late = ProclaimRequest { leader: Some(first.clone()), value: text("late") };
    assert_eq!(bed.elections().proclaim(late).await.unwrap_err().message(), "election: not leader");
    bed.elections().resign(ResignRequest { leader: Some(first) }).await.unwrap();
    bed.elections().proclaim(ProclaimRequest { leader: Some(second), value: text("new") }).await.unwrap();
    assert_eq!(bed.leader().await.unwrap(), "new");

    bed.revoke(2).await;
    let third = soon(candidates.remove(0)).await.unwrap().unwrap();
    assert_eq!((third.lease, bed.leader().await.unwrap().as_str()), (3, "c3"));
}

#[tokio::test(start_paused = true)]
async fn end_of_a_lease_by_the_clock_passes_leadership_on() {
    let bed = Bed::new();
    bed.grant(1, 5).await;
    bed.grant(2, 600).await;
    soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    let next = bed.campaign(2, "b");
    settle().await;
    bed.store.pass_ms(4_000);
    bed.tell(Command::LeaseExpire { limit: 100 }).await;
    settle().await;
    assert!(!next.is_finished(), "the lease lives");
    bed.store.pass_ms(2_000);
    bed.tell(Command::LeaseExpire { limit: 100 }).await;
    assert_eq!(soon(next).await.unwrap().unwrap().lease, 2);
}

#[tokio::test(start_paused = true)]
async fn campaign_of_the_leader_again_answers_at_once() {
    let bed = Bed::new();
    bed.grant(1, 600).await;
    let first = soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    let again = soon(bed.campaign(1, "b")).await.unwrap().unwrap();
    assert_eq!((first.rev, bed.leader().await.unwrap().as_str()), (again.rev, "b"));
}

#[tokio::test(start_paused = true)]
async fn campaigns_that_are_given_up_leave_the_queue() {
    let bed = Bed::new();
    for lease in 1..=3 {
        bed.grant(lease, 600).await;
    }
    soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    let given_up = bed.campaign(2, "b");
    settle().await;
    let third = bed.campaign(3, "c");
    settle().await;
    given_up.abort();
    settle().await;
    assert_eq!(bed.keys().await, ["boss/1", "boss/3"]);
    bed.revoke(1).await;
    assert_eq!(soon(third).await.unwrap().unwrap().lease, 3);
}

#[tokio::test(start_paused = true)]
async fn candidate_whose_lease_ends_while_it_waits_does_not_lead() {
    let bed = Bed::new();
    bed.grant(1, 600).await;
    bed.grant(2, 600).await;
    soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    let second = bed.campaign(2, "b");
    settle().await;
    bed.revoke(2).await;
    let status = soon(second).await.unwrap().unwrap_err();
    assert_eq!(status.message(), "etcdserver: requested lease not found");
    let unknown = soon(bed.campaign(77, "c")).await.unwrap().unwrap_err();
    assert_eq!(unknown.message(), "etcdserver: requested lease not found");
}

#[tokio::test(start_paused = true)]
async fn observers_see_leaders_and_proclamations_in_order() {
    let bed = Bed::new();
    let answer = bed.elections().observe(LeaderRequest { name: text("boss") }).await.unwrap();
    let mut seen = answer.into_inner();
    bed.grant(1, 600).await;
    bed.grant(2, 600).await;
    let mut values = Vec::new();
    let leader = soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    let next = bed.campaign(2, "b");
    settle().await;
    for value in ["a1", "a2"] {
        let request = ProclaimRequest { leader: Some(leader.clone()), value: text(value) };
        bed.elections().proclaim(request).await.unwrap();
    }
    settle().await;
    bed.elections().resign(ResignRequest { leader: Some(leader) }).await.unwrap();
    soon(next).await.unwrap().unwrap();
    let mut revision = 0;
    for _ in 0..4 {
        let message = soon(seen.message()).await.unwrap().unwrap();
        let (kv, header) = (message.kv.unwrap(), message.header.unwrap());
        assert!(header.revision >= revision, "a step back");
        revision = header.revision;
        values.push(String::from_utf8_lossy(&kv.value).into_owned());
    }
    assert_eq!(values, ["a", "a1", "a2", "b"]);
}

#[tokio::test(start_paused = true)]
async fn observer_without_the_right_sees_nothing_more() {
    let bed = Bed::new();
    let mut seen = bed.elections().observe(LeaderRequest { name: text("boss") }).await.unwrap().into_inner();
    bed.grant(1, 600).await;
    let leader = soon(bed.campaign(1, "a")).await.unwrap().unwrap();
    assert!(soon(seen.message()).await.unwrap().is_some());
    bed.store.deny();
    let request = ProclaimRequest { leader: Some(leader), value: text("secret") };
    bed.elections().proclaim(request).await.unwrap();
    let refused = soon(seen.message()).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: permission denied");
}

#[tokio::test(start_paused = true)]
async fn one_holds_the_lock_at_a_time() {
    let bed = Bed::new();
    let (inside, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let (mut client, inside, turns) = (bed.locks(), inside.clone(), turns.clone());
        tasks.push(tokio::spawn(async move {
            let key = client.lock(LockRequest { name: text("l"), lease: 0 }).await.unwrap().into_inner().key;
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two hold the lock");
            tokio::time::sleep(Duration::from_millis(70)).await;
            inside.fetch_sub(1, SeqCst);
            turns.fetch_add(1, SeqCst);
            client.unlock(UnlockRequest { key }).await.unwrap();
        }));
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!((turns.load(SeqCst), bed.keys().await.len()), (20, 0));
    // Each had a lease of its own, for a minute.
    let session = Session { caller: Caller::Anyone, namespace: NAMESPACE.into() };
    let leases =
        bed.store.ask(&session, Query::Leases { after: 0, limit: 100 }, ReadConsistency::Strong).await.unwrap().0;
    let Reply::Leases { leases, .. } = leases else { panic!("{leases:?}") };
    assert!(leases.len() == 20 && leases.iter().all(|lease| lease.ttl_ms == 60_000), "{leases:?}");
}

#[tokio::test(start_paused = true)]
async fn locks_go_with_their_lease_and_calls_that_are_given_up() {
    let bed = Bed::new();
    for lease in 1..=3 {
        bed.grant(lease, 600).await;
    }
    let lock = |lease: i64| {
        let mut client = bed.locks();
        tokio::spawn(async move { client.lock(LockRequest { name: text("l"), lease }).await })
    };
    let held = soon(lock(1)).await.unwrap().unwrap().into_inner();
    assert_eq!(&held.key[..], b"l/1");
    soon(lock(1)).await.unwrap().unwrap(); // The same session has it.
    let (second, third) = (lock(2), lock(3));
    settle().await;
    bed.revoke(2).await;
    assert_eq!(soon(second).await.unwrap().unwrap_err().message(), "mutex: session is expired");
    assert!(!third.is_finished());
    third.abort();
    settle().await;
    assert_eq!(bed.keys().await, ["l/1"], "a call that is given up leaves no key");
    bed.revoke(1).await;
    bed.grant(4, 600).await;
    soon(lock(4)).await.unwrap().unwrap();
    assert_eq!(bed.service.watch_figures().watchers, 0, "nobody waits");
}
