//! Which job of an engine goes out next.

use super::*;

fn layer(pairs: usize) -> Arc<Layer> {
    let key = |at: usize| Bytes::from(at.to_be_bytes().to_vec());
    Arc::new((0..pairs).map(|at| (key(at), Some(Bytes::from_static(b"value")))).collect())
}

#[test]
fn the_engines_thread_lets_go_of_large_layers() {
    let (mut jobs, mut out) = (Jobs::default(), Vec::new());
    let (small, large) = (layer(1), layer(FORGET_PAIRS_MIN));
    let still_held = [Arc::downgrade(&small), Arc::downgrade(&large)];
    jobs.forget("memory", vec![small]);
    jobs.poll(Tick(0), &mut out);
    assert!(out.is_empty() && still_held[0].strong_count() == 0, "not worth a job");
    jobs.forget("memory", vec![large]);
    jobs.poll(Tick(0), &mut out);
    assert_eq!((out.len(), still_held[1].strong_count()), (1, 1), "who has the job has the last of them");
    let number = out[0].job;
    out.clear();
    assert_eq!(still_held[1].strong_count(), 0);
    let ended = jobs.on_done(Tick(0), number, Ok(EngineAnswer::Done)).unwrap().unwrap();
    assert!(matches!(ended.target, JobTarget::Forget));
}

/// Lets the engine do one job, which is not finished.
fn step(jobs: &mut Jobs) -> EngineWork {
    let mut out = Vec::new();
    jobs.poll(Tick(0), &mut out);
    let job = out.pop().expect("a job waits");
    let unfinished = matches!(job.work, EngineWork::DropSpace { .. });
    let answer = if unfinished { EngineAnswer::More } else { EngineAnswer::Done };
    jobs.on_done(Tick(0), job.job, Ok(answer)).unwrap();
    job.work
}

pub(crate) fn a_flush_passes_spaces_being_dropped() {
    let mut jobs = Jobs::default();
    (0..5_000).for_each(|space| jobs.drop_space("memory", SpaceId(space)));
    step(&mut jobs);
    jobs.flush("memory", JobTarget::Flush(Vec::new()), Flush::default());
    let before = (0..).take_while(|_| !matches!(step(&mut jobs), EngineWork::Flush(_))).count();
    assert!(before <= 1, "{before} synced transactions before the flush");
}

pub(crate) fn drops_progress_under_endless_flushes() {
    let mut jobs = Jobs::default();
    (0..3).for_each(|space| jobs.drop_space("memory", SpaceId(space)));
    let mut chunks = 0;
    for _ in 0..100 {
        jobs.flush("memory", JobTarget::Flush(Vec::new()), Flush::default());
        chunks += usize::from(matches!(step(&mut jobs), EngineWork::DropSpace { .. }));
    }
    assert!(chunks >= 100 / (URGENT_IN_A_ROW_MAX as usize + 1), "{chunks} chunks in 100 jobs");
}

pub(crate) fn a_drop_never_overtakes_an_older_write() {
    let mut jobs = Jobs::default();
    let target = || JobTarget::Staging { cluster: ClusterId(1), snapshot: 1 };
    (0..10).for_each(|_| jobs.write("memory", target(), WriteBatch::default()));
    jobs.drop_space("memory", SpaceId(7));
    let before = (0..).take_while(|_| !matches!(step(&mut jobs), EngineWork::DropSpace { .. })).count();
    assert_eq!(before, 10);
}

#[test]
fn jobs_go_out_in_their_order() {
    a_flush_passes_spaces_being_dropped();
    drops_progress_under_endless_flushes();
    a_drop_never_overtakes_an_older_write();
}

#[test]
fn too_many_drops_make_the_engine_crowded() {
    let mut jobs = Jobs::default();
    (0..ENGINE_JOBS_MAX as u64).for_each(|space| jobs.drop_space("memory", SpaceId(space)));
    assert!(jobs.is_crowded());
    let mut out = Vec::new();
    jobs.poll(Tick(0), &mut out);
    jobs.on_done(Tick(0), out[0].job, Ok(EngineAnswer::Done)).unwrap();
    assert!(!jobs.is_crowded());
}
