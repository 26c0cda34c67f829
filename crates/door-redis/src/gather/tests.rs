use super::*;
use crate::testing::Memory;
use bytes::Bytes;
use std::sync::atomic::Ordering;
use tokio::task::LocalSet;

fn command(line: &str) -> RedisCommand {
    let words = line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    RedisCommand { database: 0, words }
}

async fn many(memory: &Arc<Memory>, lines: Vec<String>) -> Vec<Gathered> {
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
            assert!(answers.iter().all(|answer| *answer == Ok(vec![RedisReply::Ok])));
            assert_eq!(memory.calls.load(Ordering::Relaxed), 1);
            let answers = many(&memory, (0..100).map(|n| format!("GET key:{n}")).collect()).await;
            for (n, answer) in answers.into_iter().enumerate() {
                assert_eq!(answer, Ok(vec![RedisReply::Bulk(Bytes::from(n.to_string()))]));
            }
            assert_eq!(memory.calls.load(Ordering::Relaxed), 2);
        })
        .await;
}

#[tokio::test]
async fn a_refusal_is_of_one_connection() {
    LocalSet::new()
        .run_until(async {
            let memory = Arc::new(Memory::default());
            *memory.forbidden.lock().unwrap() = Some(b"secret");
            let lines = ["SET a 1", "SET secret 1", "SET b 1"].map(String::from).to_vec();
            let answers = many(&memory, lines).await;
            assert_eq!(answers[0], Ok(vec![RedisReply::Ok]));
            assert!(answers[1].as_ref().is_err_and(|refusal| refusal.code == ErrorCode::PermissionDenied));
            assert_eq!(answers[2], Ok(vec![RedisReply::Ok]));
        })
        .await;
}
