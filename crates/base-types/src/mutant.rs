//! Planted bugs: each is a mistake somebody once made in a real system. The simulator switches one on
//! (build feature `mutants`) and must notice. In every other build `planted` is the constant false.

/// Declares the mutants with the sentence that the kill table prints.
macro_rules! mutants {
    ($($name:ident = $text:literal,)*) => {
        /// A planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum Mutant {
            /// None: the correct program.
            None = 0,
            $(#[doc = $text] $name,)*
        }
        /// Every mutant with its description.
        pub const ALL: &[(Mutant, &str, &str)] = &[$((Mutant::$name, stringify!($name), $text),)*];
    };
}

mutants! {
    AckBeforeSync = "a follower acknowledges entries before its log has synced them",
    LeaderAckBeforeSync = "the leader counts its own copy before its log has synced it",
    VoteNotPersisted = "a vote is sent before it is durable, and forgotten by a crash",
    TermNotPersisted = "the hard state is not written with a new term",
    LocalLeaderRead = "a node that believes it leads answers strong reads without lease or ReadIndex",
    LeaseWithoutMargin = "the lease lasts four times the election timeout",
    LeaseAtElectionTimeout = "the lease lasts exactly one election timeout: no margin for clocks and ticks",
    LeaseFromAnswer = "the lease runs from when its round came back, not from when it was asked for",
    LeaseTrustedOverHold = "strong reads use leases although the setting turns them off",
    LeaseAfterTransfer = "the lease is kept although leadership is being handed over",
    LeaseAfterFailedTransfer = "a leader takes leases again once a hand-over has expired, although the request may still arrive",
    VoteInsidePromise = "a follower votes although it has just heard its leader",
    StalledLeaderStays = "a leader whose log write does not end keeps leadership until the log counts as failed",
    ExpiredIsDone = "a request's deadline counts from when its core came to it, not from when it was asked",
    StallCountsPauses = "a log write's time counts on while the process is stopped",
    StaleReadIndex = "a ReadIndex answer is used for a read that came after it was asked",
    ReadBeforeApply = "a strong read does not wait until its index is applied",
    EventualReadAsStrong = "a follower answers strong reads from what it has applied",
    VoteAfterRestart = "a restarted member votes at once, inside a lease it has forgotten",
    LearnerCounts = "a learner's acknowledgement counts for a write's majority",
    LearnerVotes = "a learner is asked for its vote, and the vote counts as a voter's",
    BlankVotes = "a member with a blank disk starts as the voter it was",
    LostLogIsBlank = "a log whose files are gone counts as new under the disk id that it had",
    BlankReplicaVotes = "a replica that has no snapshot yet answers votes",
    VoterMadeBlank = "a voter that says it holds nothing is recreated under its own replica id",
    LastRotIsTorn = "rot in the last batch is taken for a torn tail although no part of the write is missing",
    DoubleApply = "request ids are not looked up, so a retry applies twice",
    QuorumGuardAssumes = "a node that is not known to be down counts for the majority that a removal must leave",
    SessionReadsOlder = "an eventual read answers from before the position that its session has seen",
    StrongEndsSession = "a session's read that the leader answers may be older than what the session saw uncommitted",
    RequestIdForgottenEarly = "the id that a client gave is forgotten with the request's deadline",
    ExpiredIdApplied = "an issued id is applied although an application of it may have been forgotten",
    RequestIdsNotInSnapshot = "a snapshot leaves the request ids behind",
    RequestIdsForgottenOnRestart = "request ids are not read back after a restart",
    MendFromAnyIndex = "a damaged pair is mended with another member's value of any index",
    ChecksBeginAnew = "a scrub that fails once more begins anew with the first replicas, and never comes to the last",
    LostHeardOnce = "a damaged member of a quiet cluster is refused each time it asks to be replaced, for nobody has answered lately",
    ScrubIgnoresDamage = "what a scrub finds damaged is not mended",
    FloorOneTooHigh = "a node that lost a replica and its id learns a bound one above all ids ever made",
    AbsenceUnsealed = "a key that is not found is believed to be absent although some key near it is lost",
    TornIsRot = "a torn tail is taken for rot: a restart reports damage that is none",
    RotIsTorn = "rot in the middle of the log is taken for a torn tail and cut off",
    SkipChecksum = "log records are taken without looking at their checksum",
    IdentityNotChecked = "the checksum does not cover identity: a misdirected write passes",
    RecycledSegmentTrusted = "records of a segment's earlier life are taken as present",
    FailedSyncRetried = "a failed sync is taken for done and acknowledged",
    DurableToldEarly = "what waits for a record is released by the next log write, not by the one that holds the record",
    FlushWaitsForDrops = "jobs of an engine go out in the order they came: a flush waits for every space that is dropped",
    DropsOvertakeWrites = "a space is dropped before a write to it that was queued earlier",
    LogCutTooEarly = "the log is cut up to the applied index, not the durable one",
    LiveTailLost = "an old segment is recycled without moving its live tail",
    TruncatedBytesCounted = "entries that are truncated stay in the count of their cluster's bytes",
    StagedDeadCounted = "a record that is superseded before it is written stays in the count of live bytes",
    TruncateKeepsSuffix = "a conflicting suffix stays in the log instead of what replaces it",
    SnapshotSkipsSync = "a snapshot is acknowledged before the log's reset is durable",
    SnapshotTorn = "a snapshot is installed although the keys of its last chunk are missing",
    SnapshotKeepsOld = "keys that a snapshot does not hold stay after it is installed",
    SnapshotWrongIndex = "a snapshot claims the applied index, but holds the durable one",
    FlushedCounted = "what has been flushed stays in the count of the overlay's bytes",
    RemovedOverlayCounted = "the overlay of a removed replica stays in its lane's count of bytes",
    DirtyForgotten = "a replica that is written to during a flush is not flushed until it is written to again",
    SendersCounted = "snapshots that end with their leader's term stay in the lane's count",
    AnsweredWritesCounted = "writes that were answered early stay in the count of those that wait",
    RepliesCounted = "replies that expire stay in the count of what is remembered",
    ExpiredIdsCounted = "request ids that expire stay in the count of those held",
    AbsoluteWaitsKept = "a write that waits for every member is not answered when leadership is lost",
    OverlayLost = "what is written while the overlay is flushed is dropped with it",
    DeleteLostInFlush = "a delete in the overlay does not reach the engine",
    PriorTermCommit = "an entry of an earlier term is committed by counting copies",
    StaleRouteAccepted = "a forwarded write that was long under way is taken",
    AbsoluteIsStrong = "an absolute write is acknowledged with the majority",
    KeptIsStrong = "a write at level s3 is acknowledged with the majority",
    KeptToldEarly = "a durable tail says that its bucket holds what it has only applied",
    KeptThoughDamaged = "a durable tail says that its bucket holds what it wrote, although pairs there are known to be damaged",
    EventualIsHopeful = "an eventual write is acknowledged before the leader's sync",
    HopefulUnordered = "a hopeful write is acknowledged by a node that does not lead",
    UnknownAsRefused = "a proposed write whose outcome is lost is reported as not applied",
    NewsOfMembersDropped = "members that change while an earlier change is reported to `reference` count as reported",
    MembersNotCompared = "what `reference` lists of a cluster is not compared with what its leader holds",
    RemovedMemberStays = "a member of the world that was removed while it was away keeps its replica",
    MembersForgotten = "a node that starts goes by its configured list of the world's members, whatever it has heard since",
    ShrunkTooLate = "a configuration cluster keeps the copy on a node that leaves, where no other node can take it",
    ReplicaIdReused = "a node that lost its disk comes back under its old replica id",
    MoveLosesDirty = "a partition's last dirty keys are not copied before the switch",
    SplitForgetsRequests = "what a shard remembers of requests is not carried to those that take over its keys",
    LongKeysTakenForWhole = "as much of a long key as is kept with a request is taken for the whole key",
    DeletesOfManyForgotten = "keys that were deleted among many are deleted once more when they are asked for in other company",
    MoveForgetsRequests = "what the old owner of a partition remembers of requests is not carried to the new one",
    MoveWithoutFreeze = "a partition is switched while its old owner still takes writes",
    StaleEpochAccepted = "a cluster takes keys of a partition it no longer owns",
    ScanSkipsOverlay = "a range read does not see the overlay's frozen half",
    QuiesceWhileBehind = "a cluster goes quiet although a member lacks entries, and the member agrees",
    PoisonedCommand = "a state machine panics at one command of a client, or calls its state corrupt",
    QuarantineServes = "a replica that cannot apply an entry still answers reads",
    ContradictionIgnored = "a member whose committed log contradicts its leader's keeps serving",
    HashNeverCompared = "a leader compares what members have applied with nothing",
    SkipNotReplicated = "an operator's word to skip an entry is heard by the leader alone",
    OwnReplicaIgnored = "a node asks the world where a cluster is of which it holds a replica itself",
    StaleRouteIsError = "the client gets an error for a stale route, which should be looked up again",
    OldIncarnationServes = "a node of a world's earlier life keeps serving although it has learned of a later one",
    EndedLifeServes = "a member of a life of a cluster that ended continues although it has heard of the next one",
    LifeNotRaised = "a cluster that is recovered without its majority continues in the life it had",
    WorstSurvivorChosen = "a cluster is recovered from the survivor whose log is the least",
    RottenSurvivorTrusted = "a survivor with sound rows is thrown away although the chosen one has damaged ones",
    LivingMembersOverruled = "a cluster is recovered although a leader of it, or a member that does not answer, is known to be up",
    LostIdsGivenAgain = "the world's cluster, recovered without its majority, gives cluster ids again that lost entries had given",
    LaterLifeUnheard = "a member of the world's cluster that hears of a later life of it keeps its own",
    LifeOfEntriesForgotten = "an entry that is applied after its cluster was recovered is taken for one of the new life",
    OldMembersComeBack = "members named by a recovered log's last entries become members of the new life",
    EndedDataGivesWay = "a new replica is made over the data of an ended life that nobody has discarded",
    HealthIgnoresQuorum = "a node calls the world well although no leader with a majority answers",
    ApplyOutOfOrder = "the writes of one entry are applied last first",
    ClockStepsBack = "the cluster's time goes back when leadership moves, and applying follows it",
    ConfChangeUnapplied = "a membership change is acknowledged before it is applied",
    DoubledWriteLost = "a write that a split must double is now and then not put in the feed",
    FeedForgetsRows = "of a write of many rows a split's feed names the first ones only",
    SumKeepsOldRow = "a row that is written over is not taken from the sum that has come to it",
    CutOverBeforeEqual = "a shard is cut over although its targets do not hold the same",
    ShardStaleEpochAccepted = "a shard takes writes of an epoch that is not its own",
    GivenAwayTaken = "a shard that has given its keys away still takes writes of them",
    CountIgnoresOverwrite = "the count index is not told of an object that is put over another",
    QuotaPassedAtOnce = "a shard takes what a put's bounds forbid: puts at one time pass a quota",
    PrefixSkipEatsKey = "a listing's skip over a common prefix also skips the next key",
    MarkerHidesWrongVersion = "removing a delete marker does not make the next older version current",
    MissingKeyCounted = "a key that is not there is taken from its partition's count when it is deleted",
    PartSentAgainLost = "the place of a part that is sent again is not queued for collection",
    CollectedThoughNamed = "a collector frees the parts of a completed upload that its object names",
    FreedDataLost = "what an overwrite or a delete frees is not queued for collection",
    PinCommitsPastWrite = "a snapshot is committed although a write broke the freeze of a shard",
    OnceTokenLeftBehind = "a split does not copy the tokens of what was put once",
    ListSkipsBoundary = "a listing passes over the first key of a shard that is not the first",
    StampFloorForgotten = "a shard made by a split gives version ids that were given before it",
    CloseIgnoresVersions = "a bucket counts as empty although markers and old versions are left",
    FreedDroppedWithShard = "a retired shard is dropped with the freed data that it still holds",
    ReservationNeverReleased = "a bucket's name is given up under another value than it has",
    ImportNotCompared = "rows that come late or twice to a new shard are taken whatever came since",
    NarrowForgetsImported = "a shard is narrowed in front of rows that it took over from another",
    NarrowCutsGreatestKey = "a shard is narrowed in front of its greatest key",
    NarrowKeepsHalfPins = "a snapshot that is half made outlives the narrowing of a shard",
    StaleBucketCache = "a node uses its old record of a bucket, although another may have the name by now",
    SnapshotSeesLater = "what a row was is not kept for a snapshot",
    SleepForgetsVote = "a quiet member forgets whom it has voted for in its term",
    JointStateStays = "a joint configuration that is read back from disk or a snapshot is not left by itself",
    CompactKeepsContradicted = "what follows an entry that a snapshot contradicts stays in the log",
    MovedRotHidesEntry = "a moved copy of an entry that rotted hides its original, which did not",
    DeadOneRecordEarly = "a record counts as superseded one record before its successor is durable",
    RollBackForwards = "the changes of an entry that cannot be applied to its end are taken back first to last",
    RepeatForgottenWithFirst = "a repeated request is forgotten with the row of the first time",
    ForgottenNotReadBack = "a restarted member takes no issued request id for expired",
    RepairTakesUncommitted = "a hole whose term nobody knows is filled with an entry that is not committed",
    DestroyedMadeAgain = "a destroyed replica may be made again under its own id",
    MemoryStepsBack = "a late frame sets back how far a peer's log was heard to be",
    DeletedMeansNotApplied = "a write that may have been applied is answered as refused when its cluster is gone meanwhile",
    UnfinishedNeverStale = "what a planner left half done is never taken up by another",
    PurgedByMinority = "a cluster counts as deleted when half of its members have destroyed their replica",
    BackwardScanLeavesPart = "a backward scan of ranges skips a partition where it continues in another cluster",
    DirtySkipsOne = "of what changed while a partition moves, the first change of each page is passed over",
    PageCutByBytesEnds = "a scan's page that ends by its bytes says that there is no more",
    DirtyDeleteLost = "a key that is deleted while its partition moves is not deleted at the new owner",
    HandoverOlderDirty = "a partition is handed over although it changed after the copy had ended",
    OlderMembersTaken = "`reference` takes news of members that are older than what it holds",
    MapDeltaSkipsOne = "a copy of the node map is not told of the first change after those it has",
    ReplacementSharesDomain = "a replacement is elected in a failure domain that another member is in",
    LevelWrittenEarly = "a node writes the formats of its own greatest level before the world is raised to it",
    OldNodeIgnoredAtFinalize = "the world is raised to a format level that a node on its list does not serve",
    DrainForgottenAtRegister = "a node that is being decommissioned and starts again is taken back",
    HistorySkipsOwn = "a listing of a snapshot shows the first change after the snapshot",
    SnapshotLosesTail = "a snapshot does not show the last rows of a range where they were deleted since",
    PageGoesOn = "a listing continues with the next shard although a page of this one ended early",
    TokenForgetsPin = "the pages of a snapshot's listing after the first show what is there now",
    LeaveNeverSpent = "what a core may put by its last count of a bucket is not used up by what it puts",
    PartsPageRepeats = "a page of an upload's parts begins with the last part of the page before",
    NoneMatchIgnored = "a put that must not replace an object replaces it",
}

#[cfg(feature = "mutants")]
static ACTIVE: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Whether this bug is switched on.
#[cfg(feature = "mutants")]
#[inline]
pub fn planted(mutant: Mutant) -> bool {
    ACTIVE.load(core::sync::atomic::Ordering::Relaxed) == mutant as u32
}

/// Whether this bug is switched on: never, in this build.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_mutant: Mutant) -> bool {
    false
}

/// Switches one bug on for the whole process (`Mutant::None`: off).
#[cfg(feature = "mutants")]
pub fn plant(mutant: Mutant) {
    ACTIVE.store(mutant as u32, core::sync::atomic::Ordering::Relaxed);
}
