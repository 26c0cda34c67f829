use super::*;
use crate::testing::Memory;
use bytes::Bytes;
use std::sync::atomic::Ordering;
use tokio::task::LocalSet;

fn command(line: &str) -> RedisCommand {
    let words = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    RedisCommand { database: 0, words }
}

async fn many(memory: &Arc<Memory>, lines: Vec<String>) -> Vec<Vec<RedisReply>> {
    let gatherer = Gatherer::new(memory.clone());
    let running = tokio::task::spawn_local(gatherer.clone().run());
    let session = Rc::new(memory.session(None).unwrap());
    let asked: Vec<_> = lines
        .into_iter()
        .map(|line| {
            let (gatherer, session) = (gatherer.clone(), session.clone());
            tokio::task::spawn_local(
                async move { gatherer.submit(&session, Levels::default(), vec![command(&line)]).await },
            )
        })
        .collect();
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.unwrap());
    }
    running.abort();
    answers
}

#[tokio::test]
async fn commands_of_many_connections_go_in_few_calls() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            let answers = many(&memory, (0..100).map(|n| format!("SET key:{n} {n}")).collect()).await;
            assert!(answers.iter().all(|answer| *answer == [RedisReply::Ok]));
            assert_eq!(memory.calls.load(Ordering::Relaxed), 1);
            let answers = many(&memory, (0..100).map(|n| format!("GET key:{n}")).collect()).await;
            for (n, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer, [RedisReply::Bulk(Bytes::from(n.to_string()))]);
            }
            assert_eq!(memory.calls.load(Ordering::Relaxed), 2);
        })
        .await;
}

#[tokio::test]
async fn a_refusal_is_of_one_command() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            *memory.forbidden.lock().unwrap() = Some(b"secret");
            let lines = ["SET a 1", "SET secret 1", "SET b 1", "SET c 1"].map(String::from).to_vec();
            let answers = many(&memory, lines).await;
            for at in [0, 2, 3] {
                assert_eq!(answers[at], [RedisReply::Ok]);
            }
            assert!(
                matches!(&answers[1][..], [RedisReply::Error(text)] if text.starts_with("NOPERM PermissionDenied"))
            );
            // Of one connection's pipeline, too.
            let gatherer = Gatherer::new(memory.clone());
            tokio::task::spawn_local(gatherer.clone().run());
            let session = Rc::new(memory.session(None).unwrap());
            let pipeline = ["INCR a", "GET secret", "INCR a"].map(command).to_vec();
            let replies = gatherer.submit(&session, Levels::default(), pipeline).await;
            assert_eq!((&replies[0], &replies[2]), (&RedisReply::Integer(2), &RedisReply::Integer(3)));
            assert!(matches!(&replies[1], RedisReply::Error(text) if text.starts_with("NOPERM")));
        })
        .await;
}

#[tokio::test]
async fn what_a_call_did_not_reach_goes_with_the_next() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            let big = "v".repeat(1 << 20);
            for n in 0..10 {
                many(&memory, vec![format!("SET k{n} {big}")]).await;
            }
            let before = memory.calls.load(Ordering::Relaxed);
            let answers = many(&memory, (0..10).map(|n| format!("GETDEL k{n}")).collect()).await;
            assert!(answers
                .iter()
                .all(|answer| matches!(&answer[..], [RedisReply::Bulk(value)] if value.len() == 1 << 20)));
            assert_eq!(memory.calls.load(Ordering::Relaxed) - before, 3);
        })
        .await;
}

#[tokio::test]
async fn a_keyspace_that_does_not_answer_delays_no_other() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            *memory.silent.lock().unwrap() = Some("gone");
            let gatherer = Gatherer::new(memory.clone());
            tokio::task::spawn_local(gatherer.clone().run());
            let own = Rc::new(memory.session(None).unwrap());
            let gone = Rc::new(Session { keyspace: "gone".into(), ..(*own).clone() });
            for n in 0..10 {
                let (gatherer, gone) = (gatherer.clone(), gone.clone());
                tokio::task::spawn_local(async move {
                    gatherer.submit(&gone, Levels::default(), vec![command(&format!("SET k{n} 1"))]).await;
                });
                tokio::task::yield_now().await;
            }
            assert_eq!(gatherer.submit(&own, Levels::default(), vec![command("SET a 1")]).await, [RedisReply::Ok]);
        })
        .await;
}

#[tokio::test]
async fn what_came_after_a_failure_was_not_done() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            *memory.forbidden.lock().unwrap() = Some(b"secret");
            *memory.failing.lock().unwrap() = Some(b"bad");
            let lines = ["SET a 1", "SET secret 1", "SET bad 1", "SET b 1"].map(String::from).to_vec();
            let answers = many(&memory, lines).await;
            assert_eq!(answers[0], [RedisReply::Ok]);
            let starts =
                |at: usize, word: &str| matches!(&answers[at][..], [RedisReply::Error(text)] if text.starts_with(word));
            assert!(starts(1, "NOPERM") && starts(2, "TRYAGAIN") && starts(3, "TRYAGAIN"), "{answers:?}");
            assert_eq!(many(&memory, vec!["EXISTS b".into()]).await, [[RedisReply::Integer(0)]]);
        })
        .await;
}
