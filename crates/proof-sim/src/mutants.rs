//! Plants one bug after another and looks for the first seed that notices: the test of the simulator.
//!
//! Always: one mutant at a time, for the whole process. The table says on which layer, by which seed, by which check
//! and how fast it was found. The seeds are the swarm's own, with the fault profile of the bug. A seed that fails
//! without the mutant proves nothing and is skipped. A mutant that survives is a hole in the faults or the checkers,
//! and fails the hunt.
//! Not here: the bugs (base-types and where they are planted), the checkers (proof-check: none knows a mutant).

use crate::campaign::opener;
use crate::emphasis::{self, Emphasis};
use crate::plan::{Layer, Plan};
use crate::run::{run, Report};
use crate::swarm;
use base_types::mutant::{plant, Mutant, ALL};
use proof_check::Violation;
use std::time::Instant;

/// Seeds of its ground that a mutant is given where nothing else is said.
pub const SEEDS_A_MUTANT: u64 = 400;

/// Seeds from 1 that `make test` runs of each layer (scripts/test.sh).
const TEST_SEEDS: u64 = 500;
/// Of the second pair's bugs so many are to be noticed.
const STRANGERS_GOAL: usize = 27;
/// Seeds from 1 of the long run.
const SIM_SEEDS: u64 = 6_000;

/// Seeds that are looked at for those that lean to a ground: where none does, a hunt ends instead of looking on for ever.
const LOOKED_AT_MAX: u64 = 1_000_000;

include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// What became of a mutant.
pub struct Kill {
    pub name: &'static str,
    pub text: &'static str,
    pub layer: Layer,
    pub emphasis: Emphasis,
    /// The seed and the violation that gave it away.
    pub killed: Option<(u64, String)>,
    /// Seeds run, that one included.
    pub tried: u64,
    pub seconds: f64,
}

/// Why no seed notices bugs of the etcd door's watches.
const WATCHES_OF_ETCD: &str = "no simulated client speaks to the etcd door (door-etcd)";

/// Bugs that the simulator was not seen to notice, and why as far as is known: their own crate hunts them
/// (core-backends, `shard/tests/mutants.rs`; core-cluster, `tests/mutants.rs`; core-node, `durable/tests.rs`; door-etcd, `watch/tests/mutants.rs`).
pub const HUNTED_ELSEWHERE: &[(Mutant, &str)] = &[
    (Mutant::OwnReplicaIgnored, "members of the world that are left, and of the cluster, tell where it is, within the time that is asked for (core-node)"),
    (Mutant::StaleRouteIsError, "a load's clusters are not deleted, and a refused call is retried (core-node)"),
    (Mutant::MembersForgotten, "members that are up speak to a node that starts, whomever its list names (core-node)"),
    (Mutant::RemovedMemberStays, "any member answers a removed one's campaign that it is no member (core-node)"),
    (Mutant::OldIncarnationServes, "no simulated world is restored (core-node)"),
    (Mutant::LeaderForgottenByOthers, "it costs time, and an answer only where rights run out meanwhile (core-node)"),
    (Mutant::RemovedRouteKept, "no operator of a story removes a dead node (core-node)"),
    (Mutant::RemovedNodeAwaited, "no operator of a story removes a dead node (core-node)"),
    (Mutant::DrainIgnored, "no judge asks who leads: a drained leader that leads on breaks no promise (core-cluster)"),
    (
        Mutant::SnapshotAfterLeading,
        "a member's answer that asks for a snapshot and the word of a later term must come in one turn (core-cluster)",
    ),
    (Mutant::BlankReplicaVotes, "nothing orders a voter's replica made blank any more (core-cluster)"),
    (Mutant::VoterMadeBlank, "a voter that holds nothing on its disk does not come up: its log is refused before (core-node)"),
    (
        Mutant::CutOverBeforeEqual,
        "the runner of a split asks for the cut-over when all is equal; the check is for a second runner",
    ),
    (Mutant::RottenSurvivorTrusted, "no survivor of a story that leans to recovery rots (core-cluster)"),
    (Mutant::LivingMembersOverruled, "an operator of a story asks when the dead are dead (core-node)"),
    (Mutant::GatewayAsksAsNode, "no simulated client speaks to an S3 gateway (core-node)"),
    (Mutant::SessionPolicyDropped, "no simulated client speaks to an S3 gateway (door-s3)"),
    (Mutant::WatchStartSkipped, WATCHES_OF_ETCD),
    (Mutant::WatchStallForgets, WATCHES_OF_ETCD),
    (Mutant::WatchRevisionSplit, WATCHES_OF_ETCD),
    (Mutant::WatchStallGoesBack, WATCHES_OF_ETCD),
    (Mutant::WatchNowAtReplica, WATCHES_OF_ETCD),
    (Mutant::WatchCompactionUnheard, WATCHES_OF_ETCD),
    (Mutant::WatchSharedPageSkips, WATCHES_OF_ETCD),
    (Mutant::WatchDeniedStays, WATCHES_OF_ETCD),
    (Mutant::LaterLifeUnheard, "no story recovers the world's cluster (core-node)"),
    (Mutant::LostIdsGivenAgain, "no story recovers the world's cluster (core-node)"),
    (Mutant::WorstSurvivorChosen, "what the survivor of a story does not hold counts as lost with the majority (core-cluster, core-node)"),
    (Mutant::EndedDataGivesWay, "nobody asks for data of a life that has ended (core-cluster)"),
    (Mutant::DeletesOfManyForgotten, "the keys of a delete are parted between two tries of it in one run of hundreds"),
    (Mutant::NewsOfMembersDropped, "what `reference` lists is compared every ten seconds: the story only takes longer"),
    (Mutant::MembersNotCompared, "no story loses all members of a cluster between a change of them and its report"),
    (Mutant::ShrunkTooLate, "no node is decommissioned in a world of four chassis and then forgotten"),
    (Mutant::FeedForgetsRows, "no write of a simulated client changes as many rows as one row of the feed names"),
    (
        Mutant::DurableToldEarly,
        "a backlog of several batches, a replica made in it and a crash between two of its writes never meet (core-node)",
    ),
    (Mutant::FlushWaitsForDrops, "nothing goes wrong, it only takes long: the engine in memory takes no time (core-cluster)"),
    (Mutant::PoisonedCommand, "no client of the load sends such a command; the tests of core-cluster do, and plant it themselves"),
    (Mutant::QuarantineServes, "without a bug nothing is ever quarantined in the simulator (core-cluster)"),
    (Mutant::SkipNotReplicated, "without a bug nothing is ever quarantined in the simulator (core-cluster)"),
    (Mutant::ContradictionIgnored, "a majority that comes back with old logs is no fault of the swarm (core-cluster)"),
    (Mutant::DropsOvertakeWrites, "what is left behind is dropped at the next start (core-cluster)"),
    (Mutant::ImportNotCompared, "only of two runners of one split does one bring rows late"),
    (Mutant::ShardStaleEpochAccepted, "the range and the state of a shard refuse what a stale epoch lets through"),
    (Mutant::PinCommitsPastWrite, "a snapshot is prepared within some round trips, its freeze lasts longer"),
    (Mutant::OnceTokenLeftBehind, "the put of a completion is remembered as a request, too"),
    (Mutant::StampFloorForgotten, "the rows that are taken over carry the floor, but for versions that were removed"),
    (Mutant::CloseIgnoresVersions, "a removal counts what a bucket holds before it closes anything, and so hides it"),
    (
        Mutant::FreedDroppedWithShard,
        "snapshots keep a retired shard for a minute, and by then what it freed was handed on",
    ),
    (
        Mutant::NarrowForgetsImported,
        "a shard is not narrowed in the first minute after it took over rows: longer than the load",
    ),
    (
        Mutant::NarrowCutsGreatestKey,
        "clients put keys in front of the greatest one, too, so that a shard is seldom narrowed",
    ),
    (Mutant::LongKeysTakenForWhole, "no key of the load is as long as what is kept of a key"),
    (Mutant::NarrowKeepsHalfPins, "a snapshot is half made for some round trips; a narrowing must fall between"),
];

/// Thirty bugs that a second pair of eyes chose by reading code that no bug had been planted in, before any check was sharpened for
/// them; and those of them that the checks of then noticed, hunted in the same way.
const STRANGERS: &[(Mutant, bool)] = &[
    (Mutant::SleepForgetsVote, false),
    (Mutant::JointStateStays, false),
    (Mutant::CompactKeepsContradicted, false),
    (Mutant::MovedRotHidesEntry, false),
    (Mutant::DeadOneRecordEarly, false),
    (Mutant::RollBackForwards, false),
    (Mutant::RepeatForgottenWithFirst, false),
    (Mutant::ForgottenNotReadBack, false),
    (Mutant::RepairTakesUncommitted, false),
    (Mutant::DestroyedMadeAgain, false),
    (Mutant::MemoryStepsBack, false),
    (Mutant::DeletedMeansNotApplied, false),
    (Mutant::UnfinishedNeverStale, false),
    (Mutant::PurgedByMinority, false),
    (Mutant::BackwardScanLeavesPart, true),
    (Mutant::DirtySkipsOne, true),
    (Mutant::PageCutByBytesEnds, true),
    (Mutant::DirtyDeleteLost, true),
    (Mutant::HandoverOlderDirty, false),
    (Mutant::OlderMembersTaken, false),
    (Mutant::MapDeltaSkipsOne, false),
    (Mutant::ReplacementSharesDomain, false),
    (Mutant::DrainForgottenAtRegister, false),
    (Mutant::HistorySkipsOwn, true),
    (Mutant::SnapshotLosesTail, false),
    (Mutant::PageGoesOn, false),
    (Mutant::TokenForgetsPin, false),
    (Mutant::LeaveNeverSpent, false),
    (Mutant::PartsPageRepeats, false),
    (Mutant::NoneMatchIgnored, false),
];

/// Scenarios that are tried before the swarm's seeds: the shrunk stories of bugs that the swarm meets once in a thousand
/// seeds.
const STORIES: &[(Mutant, &str)] = &[
    (Mutant::RedisExpiryByOwnClock, include_str!("../scenarios/redis-keys-expire-through-leader-changes.toml")),
    (Mutant::RedisExpiredShown, include_str!("../scenarios/redis-keys-expire-through-leader-changes.toml")),
    (Mutant::RedisEndUnstamped, include_str!("../scenarios/redis-expired-keys-stay-gone.toml")),
    (Mutant::RedisPoppedStays, include_str!("../scenarios/redis-pops-wait-through-leader-changes.toml")),
    (Mutant::RedisRetryAppliedAgain, include_str!("../scenarios/redis-pops-wait-through-leader-changes.toml")),
    (Mutant::RedisBlockedForgotten, include_str!("../scenarios/redis-pops-wait-through-leader-changes.toml")),
    (Mutant::RedisWatchIgnored, include_str!("../scenarios/redis-transactions-through-leader-changes.toml")),
    (Mutant::RedisMessageSkipped, include_str!("../scenarios/redis-messages-while-leaders-die-and-members-move.toml")),
    (Mutant::LeaseReadIgnoresToldCommits, include_str!("../scenarios/lease-reads-see-what-watchers-saw.toml")),
    (Mutant::LeaderNeverExpires, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::PlainGetAnywhere, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::PlainPutKeepsLease, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::PlainSwapUnchecked, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::PinIgnored, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::GarbageStays, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::TakeoverRenewsNothing, include_str!("../scenarios/both-doors-while-leaders-change.toml")),
    (Mutant::UpkeepPauseOverslept, include_str!("../scenarios/lease-due-while-the-leader-pauses.toml")),
    (Mutant::TornPlaceReused, include_str!("../scenarios/second-tear-over-a-cut-off-batch.toml")),
    (Mutant::UpkeepSleeps, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::LeaseEndsEarly, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::RenewalForgotten, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::LeaseKeyDeletedTwice, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::LeaseKeepsDetached, include_str!("../scenarios/leases-end-through-leader-changes.toml")),
    (Mutant::ParkedReadForgotten, include_str!("../scenarios/watches-while-members-move-and-a-disk-is-lost.toml")),
    (Mutant::ParkedReadSkipsChange, include_str!("../scenarios/watches-while-members-move-and-a-disk-is-lost.toml")),
    (Mutant::SubRevisionLost, include_str!("../scenarios/watches-while-members-move-and-a-disk-is-lost.toml")),
    (Mutant::HorizonIgnored, include_str!("../scenarios/compaction-through-leader-changes.toml")),
    (Mutant::CompactionDropsLive, include_str!("../scenarios/compaction-through-leader-changes.toml")),
    (Mutant::HistoryRowTooNew, include_str!("../scenarios/compaction-through-leader-changes.toml")),
    (Mutant::DeleteNotInHistory, include_str!("../scenarios/compaction-through-leader-changes.toml")),
    (Mutant::RefreshMissesDelete, include_str!("../scenarios/compaction-through-leader-changes.toml")),
    (Mutant::LateStepAsRefused, include_str!("../scenarios/refused-last-step-of-a-completion.toml")),
    (Mutant::SplitForgetsRequests, include_str!("../scenarios/puts-asked-again-after-a-split.toml")),
    (Mutant::LevelWrittenEarly, include_str!("../scenarios/rolling-upgrade-with-a-way-back.toml")),
    (Mutant::OldNodeIgnoredAtFinalize, include_str!("../scenarios/rolling-upgrade-with-a-way-back.toml")),
    (Mutant::LostHeardOnce, include_str!("../scenarios/damaged-member-of-a-quiet-cluster.toml")),
    (Mutant::ChecksBeginAnew, include_str!("../scenarios/scrub-that-fails-at-one-place.toml")),
    (Mutant::HashNeverCompared, include_str!("../scenarios/replica-holds-what-it-never-wrote.toml")),
    (Mutant::HealthIgnoresQuorum, include_str!("../scenarios/world-gone-for-minutes.toml")),
    (Mutant::LostLogIsBlank, include_str!("../scenarios/log-lost-under-a-kept-disk-id.toml")),
    (
        Mutant::LifeOfEntriesForgotten,
        include_str!("../scenarios/entries-of-the-life-before-are-applied-in-the-next.toml"),
    ),
    (Mutant::FloorOneTooHigh, include_str!("../scenarios/every-record-of-a-replica-rots.toml")),
    (Mutant::StalledLeaderStays, include_str!("../scenarios/stalled-disk-moves-the-lead.toml")),
    (Mutant::StallCountsPauses, include_str!("../scenarios/stopped-with-a-write-under-way.toml")),
];

/// Where a bug lives: the layer that has it, and the stories that lead to it.
pub fn ground(mutant: Mutant) -> (Layer, Emphasis) {
    use Emphasis::*;
    use Layer::*;
    match mutant {
        Mutant::LocalLeaderRead
        | Mutant::LeaseWithoutMargin
        | Mutant::LeaseAtElectionTimeout
        | Mutant::LeaseFromAnswer
        | Mutant::LeaseTrustedOverHold
        | Mutant::LeaseAfterFailedTransfer
        | Mutant::VoteInsidePromise
        | Mutant::LeaseAfterTransfer
        | Mutant::StaleReadIndex
        | Mutant::ReadBeforeApply
        | Mutant::LeaseReadIgnoresToldCommits
        | Mutant::VoteAfterRestart => (Lane, Leases),
        Mutant::SleepForgetsVote
        | Mutant::VoteNotPersisted
        | Mutant::TruncateKeepsSuffix
        | Mutant::PriorTermCommit
        | Mutant::ClockStepsBack => (Lane, Elections),
        Mutant::DeadOneRecordEarly
        | Mutant::AckBeforeSync
        | Mutant::FailedSyncRetried
        | Mutant::EventualIsHopeful
        | Mutant::SkipChecksum => (Lane, Power),
        Mutant::CompactKeepsContradicted
        | Mutant::SnapshotSkipsSync
        | Mutant::SnapshotTorn
        | Mutant::SnapshotAfterLeading
        | Mutant::SnapshotWrongIndex => (Lane, Snapshots),
        Mutant::QuiesceWhileBehind => (Lane, Quiet),
        Mutant::EndedLifeServes
        | Mutant::LifeNotRaised
        | Mutant::WorstSurvivorChosen
        | Mutant::LaterLifeUnheard
        | Mutant::LostIdsGivenAgain
        | Mutant::RottenSurvivorTrusted
        | Mutant::LivingMembersOverruled
        | Mutant::OldMembersComeBack
        | Mutant::LifeOfEntriesForgotten
        | Mutant::EndedDataGivesWay => (Core, Recovery),
        Mutant::OwnerSkipsAccess
        | Mutant::StaleDecisionAccepted
        | Mutant::ScanBeyondGrant
        | Mutant::RawClusterAllowed
        | Mutant::GiftUnbounded => (Core, Access),
        Mutant::StaleRouteAccepted => (Core, Retries),
        Mutant::MoveLosesDirty
        | Mutant::MissingKeyCounted
        | Mutant::MoveWithoutFreeze
        | Mutant::BackwardScanLeavesPart
        | Mutant::DirtySkipsOne
        | Mutant::PageCutByBytesEnds
        | Mutant::DirtyDeleteLost
        | Mutant::HandoverOlderDirty
        | Mutant::StaleEpochAccepted
        | Mutant::MoveForgetsRequests => (Core, Moves),
        Mutant::LearnerCounts
        | Mutant::LearnerVotes
        | Mutant::BlankVotes
        | Mutant::LostLogIsBlank
        | Mutant::ReplicaIdReused
        | Mutant::JointStateStays
        | Mutant::DestroyedMadeAgain
        | Mutant::ConfChangeUnapplied => (Core, Members),
        Mutant::RotIsTorn
        | Mutant::FloorOneTooHigh
        | Mutant::MendFromAnyIndex
        | Mutant::ScrubIgnoresDamage
        | Mutant::AbsenceUnsealed
        | Mutant::LastRotIsTorn
        | Mutant::TornPlaceReused
        | Mutant::ChecksBeginAnew
        | Mutant::LostHeardOnce
        | Mutant::MovedRotHidesEntry
        | Mutant::RollBackForwards
        | Mutant::RepairTakesUncommitted
        | Mutant::KeptThoughDamaged => (Core, Rot),
        Mutant::SplitForgetsRequests
        | Mutant::LateStepAsRefused
        | Mutant::DeletesOfManyForgotten
        | Mutant::PrefixSkipEatsKey
        | Mutant::MarkerHidesWrongVersion
        | Mutant::FreedDataLost
        | Mutant::PartSentAgainLost
        | Mutant::CollectedThoughNamed
        | Mutant::FreedDroppedWithShard
        | Mutant::CloseIgnoresVersions
        | Mutant::NarrowForgetsImported
        | Mutant::QuotaPassedAtOnce
        | Mutant::LongKeysTakenForWhole
        | Mutant::NarrowCutsGreatestKey
        | Mutant::NarrowKeepsHalfPins
        | Mutant::DoubledWriteLost
        | Mutant::HistorySkipsOwn
        | Mutant::SnapshotLosesTail
        | Mutant::PageGoesOn
        | Mutant::TokenForgetsPin
        | Mutant::LeaveNeverSpent
        | Mutant::PartsPageRepeats
        | Mutant::NoneMatchIgnored
        | Mutant::FeedForgetsRows
        | Mutant::SumKeepsOldRow
        | Mutant::CutOverBeforeEqual
        | Mutant::ShardStaleEpochAccepted
        | Mutant::GivenAwayTaken
        | Mutant::CountIgnoresOverwrite
        | Mutant::SnapshotSeesLater
        | Mutant::PinCommitsPastWrite
        | Mutant::OnceTokenLeftBehind
        | Mutant::ListSkipsBoundary
        | Mutant::StampFloorForgotten
        | Mutant::ReservationNeverReleased
        | Mutant::ImportNotCompared
        | Mutant::StaleBucketCache => (Core, Buckets),
        Mutant::MemoryStepsBack
        | Mutant::DeletedMeansNotApplied
        | Mutant::UnfinishedNeverStale
        | Mutant::PurgedByMinority
        | Mutant::OlderMembersTaken
        | Mutant::MapDeltaSkipsOne
        | Mutant::ReplacementSharesDomain
        | Mutant::DrainForgottenAtRegister
        | Mutant::LevelWrittenEarly
        | Mutant::OldNodeIgnoredAtFinalize
        | Mutant::SessionReadsOlder
        | Mutant::StrongEndsSession
        | Mutant::HashNeverCompared
        | Mutant::ContradictionIgnored
        | Mutant::HealthIgnoresQuorum
        | Mutant::OwnReplicaIgnored
        | Mutant::StaleRouteIsError
        | Mutant::RemovedMemberStays
        | Mutant::MembersForgotten
        | Mutant::MembersNotCompared
        | Mutant::NewsOfMembersDropped
        | Mutant::ShrunkTooLate
        | Mutant::ExpiredIsDone
        | Mutant::QuorumGuardAssumes => (Core, Plain),
        _ => (Lane, Plain),
    }
}

/// The mutant of this name.
pub fn named(name: &str) -> Option<Mutant> {
    ALL.iter().find(|(_, of, _)| *of == name).map(|(mutant, _, _)| *mutant)
}

/// Hunts every mutant (or those named), each over at most `seeds` seeds of its ground (or of the one given); `each` hears of it at once.
pub fn hunt(
    seeds: u64,
    elsewhere: Option<(Layer, Emphasis)>,
    only: Option<&str>,
    mut each: impl FnMut(&Kill),
) -> Vec<Kill> {
    let is_here = |mutant: &Mutant| HUNTED_ELSEWHERE.iter().all(|(other, _)| other != mutant);
    // One that is asked for by name is hunted here, too.
    let chosen = |(mutant, name, _): &&(Mutant, &str, &str)| {
        only.map_or(is_here(mutant), |only| only.split(',').any(|only| only == *name))
    };
    ALL.iter()
        .filter(chosen)
        .map(|(mutant, name, text)| {
            let (layer, emphasis) = elsewhere.unwrap_or_else(|| ground(*mutant));
            let started = Instant::now();
            let (killed, tried) = hunt_one(*mutant, seeds, layer, emphasis);
            let seconds = started.elapsed().as_secs_f64();
            let kill = Kill { name, text, layer, emphasis, killed, tried, seconds };
            println!("{}", line(&kill));
            each(&kill);
            kill
        })
        .collect()
}

/// A hunt's end as a line of a file, so that hunts may be made apart and be one table.
pub fn row_of(kill: &Kill) -> String {
    let (seed, by) = kill.killed.as_ref().map_or((String::new(), ""), |(seed, by)| (seed.to_string(), by));
    let (layer, leaning) = (kill.layer.name(), kill.emphasis.name());
    [kill.name, layer, leaning, &seed, &kill.tried.to_string(), &format!("{:.1}", kill.seconds), by].join("\t") + "\n"
}

/// The hunts that such lines tell of, in the order of the list of bugs.
pub fn read_rows(text: &str) -> Result<Vec<Kill>, String> {
    let mut kills = Vec::new();
    for line in text.lines() {
        let kill = read_row(line).ok_or_else(|| format!("no row of a hunt: {line}"))?;
        kills.push(kill);
    }
    let place = |kill: &Kill| ALL.iter().position(|(_, name, _)| *name == kill.name);
    kills.sort_by_key(place);
    Ok(kills)
}

fn read_row(line: &str) -> Option<Kill> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, layer, leaning, seed, tried, seconds, by] = fields[..] else { return None };
    let (_, name, text) = ALL.iter().find(|(_, known, _)| *known == name)?;
    let layer = [Layer::Core, Layer::Lane].into_iter().find(|known| known.name() == layer)?;
    let (emphasis, _) = emphasis::ALL.iter().find(|(_, known)| *known == leaning)?;
    let killed = (!seed.is_empty()).then(|| Some((seed.parse().ok()?, by.to_string())));
    let killed = match killed {
        Some(killed) => Some(killed?),
        None => None,
    };
    Some(Kill {
        name,
        text,
        layer,
        emphasis: *emphasis,
        killed,
        tried: tried.parse().ok()?,
        seconds: seconds.parse().ok()?,
    })
}

fn line(kill: &Kill) -> String {
    let Kill { name, tried, seconds, .. } = kill;
    let ground = format!("{} {}", kill.layer.name(), kill.emphasis.name());
    match &kill.killed {
        Some((seed, by)) => format!("{name}: {ground} seed {seed}, {tried} tried in {seconds:.1} s, {by}"),
        None => format!("{name}: SURVIVES {tried} seeds of {ground}, {seconds:.1} s"),
    }
}

fn hunt_one(mutant: Mutant, seeds: u64, layer: Layer, emphasis: Emphasis) -> (Option<(u64, String)>, u64) {
    let stories = STORIES.iter().filter(|(of, _)| *of == mutant).filter_map(|(_, text)| Plan::parse(text).ok());
    let ground = (0..LOOKED_AT_MAX).filter(|seed| emphasis::of(*seed, layer) == emphasis);
    let plans = stories.chain(ground.map(|seed| swarm::draw(seed, layer)));
    let mut tried = 0;
    for plan in plans.take(seeds as usize) {
        tried += 1;
        plant(mutant);
        let report = run_plan(&plan);
        plant(Mutant::None);
        let Some(violation) = report.violations.first() else { continue };
        if run_plan(&plan).violations.is_empty() {
            return (Some((plan.seed, told(violation))), tried);
        }
        println!("{layer:?} seed {} fails without a mutant too: passed over", plan.seed);
    }
    (None, tried)
}

fn run_plan(plan: &Plan) -> Report {
    run(plan, opener(plan))
}

fn told(violation: &Violation) -> String {
    let message = crate::trace::without_padding(&violation.message).replace('\n', " ");
    let message: String = message.chars().take(90).collect();
    format!("{}: {message}", violation.check)
}

/// The table, `docs/proof/mutants.md`.
pub fn page(kills: &[Kill], seeds: u64, commit: &str) -> String {
    let dead = kills.iter().filter(|kill| kill.killed.is_some()).count();
    let mut page = format!(
        "# Mutants

Planted bugs, one at a time, and the first seed that notices: {dead} of {} killed. Written by `proof-sim mutants --seeds {seeds} --table
docs/proof/mutants.md` (built with `--features mutants`; `make mutants`) at commit `{commit}`, on one core.

Each is hunted over the seeds of the ordinary swarm that lean to where it lives ([simulation.md](simulation.md)), at most {seeds} of them;
`make sim SEED=n LAYER=layer MUTANT=Name TRACE=1` shows a kill again. Every check is a general one: none knows a mutant.
*Found by* is the smallest run that holds that seed: `make test` and `make sim` run seeds 1 to {TEST_SEEDS}, `make sim SEEDS={SIM_SEEDS}` as many, of the
whole core and of lanes alone; another run may find the bug by another seed sooner.

| mutant | what is wrong | layer | leaning | seed | tried | seconds | found by | noticed by |
|---|---|---|---|---|---|---|---|---|
",
        kills.len()
    );
    kills.iter().for_each(|kill| page += &row(kill));
    let elsewhere = ALL.iter().filter_map(|(mutant, name, text)| {
        let (_, why) = HUNTED_ELSEWHERE.iter().find(|(other, _)| other == mutant)?;
        Some(format!("| {name} | {text} | {why} |\n"))
    });
    page += &format!(
        "
## Hunted by their own crate

{} bugs, most of S3's state machines, that the simulator was not seen to notice. `make mutants` runs their hunt, too: it plants all bugs of
these machines, those above as well (`cargo test -p core-backends --features mutants --lib -- --ignored`; likewise core-cluster, core-node).

| mutant | what is wrong | why not here, as far as is known |
|---|---|---|
",
        HUNTED_ELSEWHERE.len()
    );
    page.extend(elsewhere);
    page += &strangers(kills);
    page += &modules();
    page
}

/// The score of the second pair's bugs, before and after.
fn strangers(kills: &[Kill]) -> String {
    let name = |mutant: &Mutant| ALL.iter().find(|(of, ..)| of == mutant).map_or("", |(_, name, _)| *name);
    let after = |mutant: &Mutant| kills.iter().any(|kill| kill.name == name(mutant) && kill.killed.is_some());
    let (all, before) = (STRANGERS.len(), STRANGERS.iter().filter(|(_, before)| *before).count());
    let now = STRANGERS.iter().filter(|(mutant, _)| after(mutant)).count();
    let mut text = format!(
        "
## Bugs of a second pair of eyes

{all} bugs, as small as real mistakes, were chosen by reading modules in which none had been planted, and written down before any of them was
hunted. With the checks and faults of then (at 32c7155) {before} of {all} were noticed within their seeds; with those of now {now} of {all}, where
{STRANGERS_GOAL} of 30 are the goal. The rows of those noticed are in the first table.

| mutant | module | before | now |
|---|---|---|---|
"
    );
    for (mutant, before) in STRANGERS {
        let word = |noticed| if noticed { "noticed" } else { "lives" };
        let places: Vec<&str> =
            MODULES.iter().filter(|(of, _)| *of == name(mutant)).map(|(_, module)| *module).collect();
        text +=
            &format!("| {} | {} | {} | {} |\n", name(mutant), places.join(", "), word(*before), word(after(mutant)));
    }
    text
}

/// How many bugs are planted in each module.
pub fn modules() -> String {
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    MODULES.iter().for_each(|(_, module)| *counts.entry(module).or_default() += 1);
    let mut text = "\n## By module\n\nBugs planted in each crate and folder (or file); one that is asked about in two counts in both.\n\n| module | bugs |\n|---|---|\n".to_string();
    counts.iter().for_each(|(module, count)| text += &format!("| {module} | {count} |\n"));
    text
}

fn row(kill: &Kill) -> String {
    let Kill { name, text, tried, seconds, .. } = kill;
    let (layer, leaning) = (kill.layer.name(), kill.emphasis.name());
    let (seed, by) = match &kill.killed {
        Some((seed, by)) => (seed.to_string(), by.replace('|', "/")),
        None => ("**survives**".to_string(), String::new()),
    };
    let found = kill.killed.as_ref().map_or_else(String::new, |(seed, _)| found_by(*seed, layer));
    format!("| {name} | {text} | {layer} | {leaning} | {seed} | {tried} | {seconds:.1} | {found} | {by} |\n")
}

/// The smallest run that holds a seed. Of zero there is none: runs begin at one.
fn found_by(seed: u64, layer: &str) -> String {
    match seed {
        1..=TEST_SEEDS => format!("`make test`, {layer} seeds"),
        1..=SIM_SEEDS => format!("`make sim SEEDS={SIM_SEEDS}`, {layer} seeds"),
        _ => "`make mutants` alone".to_string(),
    }
}
