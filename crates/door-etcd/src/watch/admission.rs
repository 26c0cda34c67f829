//! Whether a session may watch a range, and where "now" is when a watch begins.
//!
//! Always: "now" is read from the leader after the watch was asked for, so a watch from now on sees nothing that was acknowledged before,
//! through whichever node. Where the leader does not answer, a replica's "now" counts, as with a member of etcd.
//! Not here: roles and rules (the store decides).

use super::follower::backoff;
use super::hub::{Hub, Hubs};
use super::revision::Wanted;
use super::wire::{reason, Asked};
use crate::status::{of_refusal, UNHEALTHY};
use crate::store::{Place, Session};
use base_types::mutant::{planted, Mutant};
use base_types::versioned::{Info, Position, Query, Span};
use base_types::{ErrorKind, ReadConsistency, Refusal};
use std::sync::Arc;
use tonic::Status;

/// How often a watch is looked at before its stream ends because the namespace cannot be reached.
const TRIES_MAX: u32 = 5;
/// Watches that are looked at again before others have their turn.
const LOOKS_A_TURN: usize = 256;

/// What came of a request for a watch.
pub(super) enum Outcome {
    Admitted {
        asked: Asked,
        info: Info,
        place: Place,
    },
    /// Answered with a reason; the stream continues.
    Refused(String),
    /// The stream ends: its client does best to connect to another node.
    Failed(Status),
}

/// Looks at a request for a watch.
pub(super) async fn admit(hubs: Arc<Hubs>, hub: Arc<Hub>, session: Session, asked: Asked) -> Outcome {
    let mut failures = 0;
    loop {
        let problem = match look(&hubs, &hub, &session, &asked).await {
            Ok((info, place)) => return Outcome::Admitted { asked, info, place },
            Err(refusal) => refusal,
        };
        let last = failures == TRIES_MAX;
        match problem.kind() {
            ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::Unknown if !last => (),
            ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::Unknown => {
                return Outcome::Failed(UNHEALTHY.into());
            }
            _ => return Outcome::Refused(reason(&of_refusal(&problem))),
        }
        failures += 1;
        tokio::time::sleep(backoff(failures)).await;
    }
}

async fn look(hubs: &Hubs, hub: &Arc<Hub>, session: &Session, asked: &Asked) -> Result<(Info, Place), Refusal> {
    check(hubs, session, &asked.wanted.span).await?;
    match hub.now().await {
        Ok(found) if !planted(Mutant::WatchNowAtReplica) => Ok(found),
        _ => hub.describe(ReadConsistency::Eventual).await,
    }
}

/// Reads after the end of all changes of a span, which costs nothing and needs what a watch of it needs.
pub(crate) fn nothing_of(span: &Span) -> Query {
    let after = Position::end_of(u64::MAX);
    Query::Changes { span: span.clone(), after, limit: 1, before: false, pin: 0 }
}

/// Refused if the session may not read the span.
async fn check(hubs: &Hubs, session: &Session, span: &Span) -> Result<(), Refusal> {
    let query = nothing_of(span);
    let _turn = hubs.checks.acquire().await;
    hubs.door().store.ask(session, query, ReadConsistency::Eventual).await.map(drop)
}

/// Which of these watches the session may no longer have, with the reason: by the node's own copy of the directory, which is looked at
/// without a question to anybody.
pub(super) async fn recheck(hubs: Arc<Hubs>, session: Session, watches: Vec<(i64, Arc<Wanted>)>) -> Vec<(i64, String)> {
    let mut denied = Vec::new();
    for (looked, (id, wanted)) in watches.into_iter().enumerate() {
        if let Err(refusal) = hubs.door().store.permits(&session, &nothing_of(&wanted.span)) {
            denied.push((id, reason(&of_refusal(&refusal))));
        }
        if looked % LOOKS_A_TURN == LOOKS_A_TURN - 1 {
            tokio::task::yield_now().await;
        }
    }
    denied
}
