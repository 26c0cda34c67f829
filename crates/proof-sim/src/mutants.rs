//! Plants one bug after another and looks for the first seed that notices: the test of the simulator.
//!
//! Always: one mutant at a time, for the whole process; the table says on which layer, by which seed, by
//! which check, how fast. The seeds are the swarm's own, those that lean to where the bug lives. A seed
//! that fails without the mutant tells nothing and is passed over. A mutant that survives is a hole in
//! the faults or the checkers, and fails the hunt.
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
/// Seeds from 1 of the long run.
const SIM_SEEDS: u64 = 6_000;

/// Seeds that are looked at for those that lean to a ground: where none does, a hunt ends instead of looking on for ever.
const LOOKED_AT_MAX: u64 = 1_000_000;

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

/// Bugs that the simulator was not seen to notice, and why as far as is known: their own crate hunts them
/// (core-backends, `shard/tests/mutants.rs`; core-cluster, `tests/mutants.rs`; core-node, `durable/tests.rs`).
pub const HUNTED_ELSEWHERE: &[(Mutant, &str)] = &[
    (Mutant::HealthIgnoresQuorum, "no check reads what nodes say of their health (core-node)"),
    (Mutant::OwnReplicaIgnored, "members of the world that are left tell where clusters are, too (core-node)"),
    (Mutant::StaleRouteIsError, "a load's clusters are not deleted, and what is refused once is asked again (core-node)"),
    (Mutant::OldIncarnationServes, "no simulated world is restored (core-node)"),
    (Mutant::BlankReplicaVotes, "nothing orders a voter's replica made blank any more (core-cluster)"),
    (Mutant::VoterMadeBlank, "a voter that holds nothing on its disk does not come up: its log is refused before (core-node)"),
    (Mutant::LastRotIsTorn, "rot does not hit the last write of a disk, which a recycled segment could not tell from a tear (core-log)"),
    (
        Mutant::CutOverBeforeEqual,
        "the runner of a split asks for the cut-over when all is equal; the check is for a second runner",
    ),
    (Mutant::DeletesOfManyForgotten, "the keys of a delete are parted between two tries of it in one run of hundreds"),
    (Mutant::NewsOfMembersDropped, "what `reference` lists is compared every ten seconds: the story only takes longer"),
    (Mutant::MembersNotCompared, "no story loses all members of a cluster between a change of them and its report"),
    (Mutant::MembersForgotten, "no story replaces all members that are configured and then restarts all nodes"),
    (Mutant::RemovedMemberStays, "a replica that nobody speaks to harms nobody that a checker asks"),
    (Mutant::ShrunkTooLate, "no node is decommissioned in a world of four chassis and then forgotten"),
    (Mutant::FeedForgetsRows, "no write of a simulated client changes as many rows as one row of the feed names"),
    (
        Mutant::DurableToldEarly,
        "a backlog of several batches, a replica made in it and a crash between two of its writes never meet (core-node)",
    ),
    (Mutant::SessionReadsOlder, "no client of the simulator sends the position that it has seen (core-node)"),
    (
        Mutant::QuorumGuardAssumes,
        "operators remove members seldom, and of a trio in which another died within a heartbeat or two (core-cluster)",
    ),
    (Mutant::FlushWaitsForDrops, "nothing goes wrong, it only takes long: the engine in memory takes no time (core-cluster)"),
    (Mutant::PoisonedCommand, "no client of the load sends such a command; the tests of core-cluster do, and plant it themselves"),
    (Mutant::QuarantineServes, "without a bug nothing is ever quarantined in the simulator (core-cluster)"),
    (Mutant::SkipNotReplicated, "without a bug nothing is ever quarantined in the simulator (core-cluster)"),
    (Mutant::HashNeverCompared, "without a fault members never differ, and the swarm flips no row under its seal (core-cluster)"),
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

/// Scenarios that are tried before the swarm's seeds: the shrunk stories of bugs that the swarm meets once in a thousand
/// seeds.
const STORIES: &[(Mutant, &str)] = &[
    (Mutant::SplitForgetsRequests, include_str!("../scenarios/puts-asked-again-after-a-split.toml")),
    (Mutant::LostLogIsBlank, include_str!("../scenarios/log-lost-under-a-kept-disk-id.toml")),
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
        | Mutant::VoteAfterRestart => (Lane, Leases),
        Mutant::VoteNotPersisted | Mutant::TruncateKeepsSuffix | Mutant::PriorTermCommit | Mutant::ClockStepsBack => {
            (Lane, Elections)
        }
        Mutant::AckBeforeSync | Mutant::FailedSyncRetried | Mutant::EventualIsHopeful | Mutant::SkipChecksum => {
            (Lane, Power)
        }
        Mutant::SnapshotSkipsSync | Mutant::SnapshotTorn | Mutant::SnapshotWrongIndex => (Lane, Snapshots),
        Mutant::QuiesceWhileBehind => (Lane, Quiet),
        Mutant::StaleRouteAccepted => (Core, Retries),
        Mutant::MoveLosesDirty
        | Mutant::MissingKeyCounted
        | Mutant::MoveWithoutFreeze
        | Mutant::StaleEpochAccepted
        | Mutant::MoveForgetsRequests => (Core, Moves),
        Mutant::LearnerCounts
        | Mutant::LearnerVotes
        | Mutant::BlankVotes
        | Mutant::LostLogIsBlank
        | Mutant::ReplicaIdReused
        | Mutant::ConfChangeUnapplied => (Core, Members),
        Mutant::RotIsTorn
        | Mutant::FloorOneTooHigh
        | Mutant::MendFromAnyIndex
        | Mutant::ScrubIgnoresDamage
        | Mutant::AbsenceUnsealed
        | Mutant::KeptThoughDamaged => (Core, Rot),
        Mutant::SplitForgetsRequests
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
        _ => (Lane, Plain),
    }
}

/// The mutant of this name.
pub fn named(name: &str) -> Option<Mutant> {
    ALL.iter().find(|(_, of, _)| *of == name).map(|(mutant, _, _)| *mutant)
}

/// Hunts every mutant (or one), each over at most `seeds` seeds of its ground (or of the one given).
pub fn hunt(seeds: u64, elsewhere: Option<(Layer, Emphasis)>, only: Option<&str>) -> Vec<Kill> {
    let is_here = |mutant: &Mutant| HUNTED_ELSEWHERE.iter().all(|(other, _)| other != mutant);
    // One that is asked for by name is hunted here, too.
    let chosen = |(mutant, name, _): &&(Mutant, &str, &str)| only.map_or(is_here(mutant), |only| only == *name);
    ALL.iter()
        .filter(chosen)
        .map(|(mutant, name, text)| {
            let (layer, emphasis) = elsewhere.unwrap_or_else(|| ground(*mutant));
            let started = Instant::now();
            let (killed, tried) = hunt_one(*mutant, seeds, layer, emphasis);
            let seconds = started.elapsed().as_secs_f64();
            let kill = Kill { name, text, layer, emphasis, killed, tried, seconds };
            println!("{}", line(&kill));
            kill
        })
        .collect()
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
    run(plan, opener(plan), false)
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
`proof-sim replay SEED --layer LAYER --mutant NAME` shows a kill again. Every check is a general one: none knows a mutant.
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
    page
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
