//! How many files this process may have open: connections are files, and so are logs and engines.
//!
//! Always: connections never take what logs and engines need, whatever `limits.connections_max` says.
//! Held by: `logs_and_engines_keep_descriptors`.

/// The part of all descriptors that connections leave.
const LEFT_PART: u64 = 8;
/// And so many at least, or half of all where there are few.
const LEFT_MIN: u64 = 512;

/// Raises this process's limit as far as it may by itself, and says what it is now.
pub fn raise() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills the structure it is given.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return u64::MAX;
    }
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: reads the structure it is given.
    let raised = limit.rlim_cur < limit.rlim_max && unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } == 0;
    if raised {
        wanted.rlim_cur
    } else {
        limit.rlim_cur
    }
}

/// How many connections each of `doors` may have, of so many descriptors, if `wanted` are asked for.
pub fn connections(wanted: usize, doors: u64, descriptors: u64) -> usize {
    let left = (descriptors / LEFT_PART).max(LEFT_MIN.min(descriptors / 2));
    let room = (descriptors - left) / doors.max(1);
    wanted.min(usize::try_from(room).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_and_engines_keep_descriptors() {
        assert_eq!(connections(10_000, 2, 1 << 20), 10_000);
        assert_eq!(connections(10_000, 2, 1_024), 256);
        assert_eq!(connections(10_000, 2, 16_000), 7_000);
        assert_eq!(connections(10_000, 2, 0), 1);
        assert!(raise() > 64);
    }
}
