//! What a verification's report means: which members hold the same, which one differs, and what to do.
//!
//! Members are compared by digest at one index. Those of the largest group hold what is right, if they are more
//! than half of those that told; a member with damaged pairs is never of that group, for its digest leaves them out.
//!
//! Not here: how members check (core-cluster, `verify.rs`).

use base_types::action::{MemberVerified, VerificationInfo};
use core_cluster::api::{ClusterVerification, MemberVerification, Verified};
use std::collections::BTreeMap;

/// The report for clients.
pub fn info(report: &ClusterVerification) -> VerificationInfo {
    let right = right_digest(report);
    let members: Vec<MemberVerified> = report.members.iter().map(|member| judged(member, report, right)).collect();
    let whole = members.iter().all(|member| member.state == "same");
    VerificationInfo {
        name: report.name.clone(),
        cluster: report.cluster,
        generation: report.generation,
        run: report.run,
        done: report.done,
        index: report.index,
        whole: report.done.then_some(whole),
        advice: if report.done { advice(report, &members) } else { Vec::new() },
        members,
    }
}

fn whole_digest(member: &MemberVerification, report: &ClusterVerification) -> Option<u64> {
    match member.told {
        Verified::Checked { index, hash, damaged: 0, .. } if index == report.index => Some(hash),
        _ => None,
    }
}

/// What more than half of those that told hold.
fn right_digest(report: &ClusterVerification) -> Option<u64> {
    let mut counted: BTreeMap<u64, usize> = BTreeMap::new();
    for hash in report.members.iter().filter_map(|member| whole_digest(member, report)) {
        *counted.entry(hash).or_default() += 1;
    }
    let told: usize = counted.values().sum();
    counted.into_iter().find(|(_, count)| *count * 2 > told).map(|(hash, _)| hash)
}

fn judged(one: &MemberVerification, report: &ClusterVerification, right: Option<u64>) -> MemberVerified {
    let state = match &one.told {
        Verified::Unknown => "waiting",
        Verified::Walking { .. } => "checking",
        Verified::Checked { index, .. } if *index != report.index => "missed",
        Verified::Checked { damaged: 1.., .. } => "damaged",
        Verified::Checked { hash, .. } => match right {
            Some(right) if right == *hash => "same",
            Some(_) => "differs",
            None => "unclear",
        },
        Verified::Missed => "missed",
        Verified::Unreadable { .. } => "unreadable",
        Verified::Silent => "silent",
    };
    let (pairs, bytes, digest, damaged) = match one.told {
        Verified::Checked { pairs, bytes, hash, damaged, .. } => (pairs, bytes, Some(hash), damaged),
        Verified::Walking { pairs } => (pairs, 0, None, 0),
        _ => (0, 0, None, 0),
    };
    let member = one.member;
    MemberVerified {
        node: member.node,
        replica: member.replica,
        learner: member.learner,
        state,
        pairs,
        bytes,
        digest,
        damaged,
    }
}

fn advice(report: &ClusterVerification, members: &[MemberVerified]) -> Vec<String> {
    let name = &report.name;
    let unreadable = report.members.iter().find_map(|member| match &member.told {
        Verified::Unreadable { message } => Some(message.as_str()),
        _ => None,
    });
    let one = |member: &MemberVerified| {
        let node = member.node;
        let rebuild = format!(
            "rebuild it: `hive ctl cluster members remove {name} {node}`, then `hive ctl cluster members add {name} {node}`"
        );
        Some(match member.state {
            "differs" => format!("node {node} differs from the majority and knows of no damage: {rebuild}"),
            "unclear" => format!(
                "node {node} differs and no majority shows which is right: take a backup of every member before anything else"
            ),
            "damaged" => format!(
                "node {node} has {} damaged pairs; it mends them from the others by itself: verify again in a minute (`hive ctl integrity` shows how far it is)",
                member.damaged
            ),
            "unreadable" => {
                format!("node {node} cannot read its engine ({}): {rebuild}", unreadable.unwrap_or("it does not say why"))
            }
            "missed" => format!("node {node} was too busy writing to stand still, or far behind: verify again when the load is lower"),
            "silent" => format!("node {node} did not answer: bring it up and verify again"),
            _ => return None,
        })
    };
    members.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::{ClusterId, DiskId, Generation, LogIndex, NodeId, ReplicaId};
    use core_cluster::api::Member;

    fn report(told: Vec<Verified>) -> ClusterVerification {
        let member = |at: usize| Member {
            replica: ReplicaId(at as u64 + 1),
            node: NodeId(at as u64 + 1),
            disk: DiskId(1),
            learner: false,
        };
        let members =
            told.into_iter().enumerate().map(|(at, told)| MemberVerification { member: member(at), told }).collect();
        ClusterVerification {
            cluster: ClusterId(9),
            generation: Generation(1),
            name: "metadata@x".parse().unwrap(),
            run: 1,
            done: true,
            index: LogIndex(7),
            members,
        }
    }

    fn checked(hash: u64, damaged: u64) -> Verified {
        Verified::Checked { index: LogIndex(7), pairs: 3, bytes: 9, hash, damaged }
    }

    fn states(told: Vec<Verified>) -> (Option<bool>, Vec<&'static str>, usize) {
        let info = info(&report(told));
        (info.whole, info.members.iter().map(|member| member.state).collect(), info.advice.len())
    }

    #[test]
    fn the_majority_is_right_and_every_other_gets_advice() {
        assert_eq!(states(vec![checked(5, 0), checked(5, 0), checked(5, 0)]), (Some(true), vec!["same"; 3], 0));
        let found = states(vec![checked(5, 0), checked(6, 0), checked(5, 0)]);
        assert_eq!(found, (Some(false), vec!["same", "differs", "same"], 1));
        // A digest without the damaged pairs says nothing about who is right.
        let found = states(vec![checked(5, 0), checked(6, 2), Verified::Silent]);
        assert_eq!(found, (Some(false), vec!["same", "damaged", "silent"], 2));
        let found = states(vec![checked(5, 0), checked(6, 0)]);
        assert_eq!(found, (Some(false), vec!["unclear", "unclear"], 2));
        let other = Verified::Checked { index: LogIndex(8), pairs: 3, bytes: 9, hash: 5, damaged: 0 };
        assert_eq!(states(vec![checked(5, 0), other]).1, ["same", "missed"]);
    }

    #[test]
    fn nothing_is_judged_before_the_end() {
        let mut going_on = report(vec![checked(5, 0), Verified::Walking { pairs: 2 }]);
        going_on.done = false;
        let found = info(&going_on);
        assert_eq!((found.whole, found.advice.len()), (None, 0));
        assert_eq!(found.members[1].pairs, 2);
    }
}
