//! Requests that took longer than `tuning.slow_request_ms`, in the log, with where their time went.
//!
//! Always: keys, values and who asked are not in it. What waits by its nature (a watch, a blocking Redis command, a write that waits
//! for every member) is not told (core-node's `Operation::spent`).
//! Held by: `a_line_says_where_the_time_went`.

use base_types::action::Response;
use core_node::api::Spent;
use std::time::Duration;

/// Of a client's request.
pub fn log(action: &'static str, took: Duration, spent: &Spent, response: &Response) {
    let outcome = response.as_ref().map_or_else(|failure| failure.refusal.code.as_str(), |_| "done");
    // Until the core took it up, this thread had other work.
    let queued_ms = ms(took.saturating_sub(spent.took));
    if let Some(plan) = spent.plan {
        let (took_ms, calls) = (ms(took), spent.attempts);
        tracing::warn!(target: "hive::slow", action, took_ms, queued_ms, plan, calls, outcome, "slow request");
        return;
    }
    let (cluster, node) = asked(spent);
    let (took_ms, before_ms, last_ms) = (ms(took), ms(spent.before), ms(spent.took.saturating_sub(spent.before)));
    let (attempts, timeouts) = (spent.attempts, spent.timeouts);
    tracing::warn!(
        target: "hive::slow", action, took_ms, queued_ms, before_ms, last_ms, cluster, node, attempts, timeouts, outcome,
        "slow request"
    );
}

/// Of a call that a plan made for a request.
pub fn log_call(spent: &Spent) {
    let (cluster, node) = asked(spent);
    let (took_ms, before_ms, last_ms) = (ms(spent.took), ms(spent.before), ms(spent.took.saturating_sub(spent.before)));
    let (attempts, timeouts) = (spent.attempts, spent.timeouts);
    tracing::warn!(
        target: "hive::slow", took_ms, before_ms, last_ms, cluster, node, attempts, timeouts, "slow call of a plan"
    );
}

fn asked(spent: &Spent) -> (String, String) {
    let cluster = spent.cluster.as_ref().map_or("unknown".into(), |name| name.to_string());
    (cluster, spent.node.map_or("none".into(), |node| node.to_string()))
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logging::tests::lines_with;
    use base_types::{ErrorCode, NodeId, Refusal};
    use std::sync::Arc;

    #[test]
    fn a_line_says_where_the_time_went() {
        let spent = Spent {
            cluster: Some(Arc::new("metadata@a".parse().unwrap())),
            node: Some(NodeId(4)),
            took: Duration::from_millis(1_500),
            before: Duration::from_millis(400),
            attempts: 2,
            timeouts: 1,
            plan: None,
        };
        let refused: Response = Err(Refusal::new(ErrorCode::DeadlineExceeded, "late").into());
        let lines = lines_with("info", "json", || {
            log("KvPut", Duration::from_millis(1_700), &spent, &refused);
            log_call(&spent);
            let of_plan = Spent { plan: Some("PutObject"), ..spent.clone() };
            log("PutObject", Duration::from_millis(1_700), &of_plan, &refused);
        });
        let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
        for (field, value) in [("took_ms", 1_700), ("queued_ms", 200), ("before_ms", 400), ("last_ms", 1_100)] {
            assert_eq!(line[field], value, "{field}");
        }
        assert_eq!((&line["cluster"], &line["node"]), (&"metadata@a".into(), &"4".into()));
        assert_eq!((&line["outcome"], &line["action"]), (&"DeadlineExceeded".into(), &"KvPut".into()));
        assert!(lines[1].contains("slow call of a plan") && lines[2].contains("PutObject"), "{lines:?}");
    }
}
