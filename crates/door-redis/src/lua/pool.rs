//! Threads on which scripts run: of the whole process, as many as are needed, up to a bound.
//!
//! By design: a script has its thread until it ends, for Lua 5.1 cannot be left in the middle of a call. Most of that time it waits for the
//! database, so there are more threads than cores (`share.rs` has how many of them may use the processor). What cannot run at once waits its turn, up to a bound.
//! Not here: what runs on them (`machine.rs`).

use super::limits::{SCRIPTS_RUNNING_MAX, SCRIPTS_WAITING_MAX, SCRIPT_STACK_BYTES, SCRIPT_THREAD_IDLE};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What runs on a thread.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

struct Waiting {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static WAITING: Mutex<Waiting> = Mutex::new(Waiting { jobs: VecDeque::new(), threads: 0, idle: 0 });
static COME: Condvar = Condvar::new();

fn waiting() -> MutexGuard<'static, Waiting> {
    // No job runs while it is held, so none can leave it half changed.
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a job run. False: too many wait.
pub(crate) fn submit(job: Job) -> bool {
    let mut own = waiting();
    if own.jobs.len() >= SCRIPTS_WAITING_MAX {
        return false;
    }
    own.jobs.push_back(job);
    if own.idle >= own.jobs.len() || own.threads >= SCRIPTS_RUNNING_MAX {
        COME.notify_one();
        return true;
    }
    own.threads += 1;
    drop(own);
    let thread = std::thread::Builder::new().name("hive-script".into()).stack_size(SCRIPT_STACK_BYTES);
    if thread.spawn(work).is_err() {
        let mut own = waiting();
        own.threads -= 1;
        // Another thread will come to it, if there is one.
        return own.threads > 0;
    }
    true
}

fn work() {
    let mut own = waiting();
    loop {
        if let Some(job) = own.jobs.pop_front() {
            drop(own);
            // A panic ends its script alone: the client hears that there was no answer.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            own = waiting();
            continue;
        }
        own.idle += 1;
        let (next, waited) = COME.wait_timeout(own, SCRIPT_THREAD_IDLE).unwrap_or_else(PoisonError::into_inner);
        own = next;
        own.idle -= 1;
        if waited.timed_out() && own.jobs.is_empty() {
            own.threads -= 1;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_run_at_the_same_time() {
        // Each waits for the next, so they end only where they run together.
        let (sender, receiver) = channel::<u32>();
        let mut last = receiver;
        for number in 0..SCRIPTS_RUNNING_MAX as u32 - 1 {
            let (next, receiver) = channel();
            let before = std::mem::replace(&mut last, receiver);
            assert!(submit(Box::new(move || {
                let got = before.recv().unwrap();
                next.send(got + number).unwrap();
            })));
        }
        sender.send(1).unwrap();
        let sum: u32 = (0..SCRIPTS_RUNNING_MAX as u32 - 1).sum();
        assert_eq!(last.recv().unwrap(), sum + 1);
    }

    #[test]
    fn a_job_that_panics_takes_no_other_along() {
        assert!(submit(Box::new(|| panic!("as the test wants it"))));
        let (sender, receiver) = channel();
        assert!(submit(Box::new(move || sender.send(7).unwrap())));
        assert_eq!(receiver.recv().unwrap(), 7);
    }
}
