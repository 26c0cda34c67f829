use super::hub::{Hubs, Kind, Subscriptions};
use super::Push;
use crate::database::{Database, Levels, Session};
use crate::testing::Memory;
use base_types::redis::{RedisAsk, RedisCall, RedisCommand};
use bytes::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

struct Bed {
    memory: Arc<Memory>,
    hubs: Rc<Hubs>,
    session: Session,
}

impl Bed {
    fn new() -> Bed {
        let memory = Arc::new(Memory::default());
        let (hubs, session) = (Hubs::new(memory.clone()), memory.session(None).unwrap());
        Bed { memory, hubs, session }
    }

    async fn publish(&self, channel: &str, message: String) {
        let words = ["PUBLISH".into(), Bytes::from(channel.to_owned()), message.into()].to_vec();
        let ask = RedisAsk::Commands { commands: vec![RedisCommand { database: 0, words }] };
        self.memory.call(&self.session, RedisCall { unix_ms: 0, seed: 0, ask }, Levels::default()).await.unwrap();
    }

    async fn subscribe(&self, id: u64, kind: Kind, name: &'static str, room: usize) -> Subscriber {
        let (sender, pushes) = mpsc::channel(room);
        let (mut own, ended) = (Subscriptions::default(), Rc::new(Cell::new(false)));
        let end = {
            let ended = ended.clone();
            Rc::new(move || ended.set(true)) as Rc<dyn Fn()>
        };
        let to = (kind, Bytes::from_static(name.as_bytes()));
        self.hubs.subscribe(&self.session, id, to, &mut own, (sender, end)).await.unwrap();
        Subscriber { pushes, own, ended }
    }
}

struct Subscriber {
    pushes: mpsc::Receiver<Push>,
    own: Subscriptions,
    ended: Rc<Cell<bool>>,
}

impl Subscriber {
    async fn next(&mut self) -> String {
        let push = tokio::time::timeout(Duration::from_secs(5), self.pushes.recv()).await.unwrap().unwrap();
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        format!("{} {} {}", push.kind, text(&push.channel), text(&push.message))
    }
}

#[tokio::test]
async fn messages_come_in_order_to_all_who_subscribe() {
    LocalSet::new()
        .run_until(async {
            let bed = Bed::new();
            bed.publish("news", "before".into()).await;
            let mut one = bed.subscribe(1, Kind::Channel, "news", 100).await;
            let mut all = bed.subscribe(2, Kind::Pattern, "n*", 100).await;
            for n in 0..20 {
                bed.publish("news", n.to_string()).await;
                bed.publish("other", n.to_string()).await;
            }
            bed.publish("noise", "x".into()).await;
            for n in 0..20 {
                assert_eq!(one.next().await, format!("message news {n}"));
                assert_eq!(all.next().await, format!("pmessage news {n}"));
            }
            assert_eq!(all.next().await, "pmessage noise x");
            assert!(one.pushes.try_recv().is_err());
            assert_eq!(bed.hubs.receivers("redis", &Bytes::from_static(b"news"), true), 0);
            let news = Bytes::from_static(b"news");
            assert_eq!(bed.hubs.receivers("redis", &news, false), 2);
            bed.hubs.unsubscribe(1, (Kind::Channel, &news), &mut one.own);
            assert_eq!(bed.hubs.receivers("redis", &news, false), 1);
            bed.hubs.leave(2, &mut all.own);
            assert_eq!(bed.hubs.receivers("redis", &news, false), 0);
            // Who comes later begins where the messages are then.
            bed.publish("news", "missed".into()).await;
            let mut late = bed.subscribe(3, Kind::Channel, "news", 100).await;
            bed.publish("news", "seen".into()).await;
            while late.next().await != "message news seen" {}
        })
        .await;
}

#[tokio::test]
async fn a_subscriber_that_does_not_read_is_disconnected() {
    LocalSet::new()
        .run_until(async {
            let bed = Bed::new();
            let slow = bed.subscribe(1, Kind::Channel, "news", 3).await;
            let mut quick = bed.subscribe(2, Kind::Channel, "news", 100).await;
            for n in 0..10 {
                bed.publish("news", n.to_string()).await;
                assert_eq!(quick.next().await, format!("message news {n}"));
            }
            assert!(slow.ended.get() && !quick.ended.get());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_revoked_subscriber_hears_nothing_more() {
    LocalSet::new()
        .run_until(async {
            let bed = Bed::new();
            let mut own = bed.subscribe(1, Kind::Pattern, "n*", 100).await;
            bed.publish("news", "early".into()).await;
            assert_eq!(own.next().await, "pmessage news early");
            bed.memory.revoked.store(true, std::sync::atomic::Ordering::Relaxed);
            tokio::time::sleep(crate::limits::SUBSCRIBER_RECHECK).await;
            bed.publish("news", "late".into()).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(own.pushes.try_recv().is_err() && own.ended.get());
        })
        .await;
}
