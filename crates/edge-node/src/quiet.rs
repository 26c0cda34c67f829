//! Log lines that an outsider can cause come at a bounded rate.
//!
//! Always: one line a period; the next one says how many were suppressed.
//! Held by: `one_line_a_period`.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The period.
const PERIOD: Duration = Duration::from_secs(5);

/// One kind of line on one thread.
#[derive(Default, Debug)]
pub struct Quiet {
    last: Cell<Option<Instant>>,
    suppressed: Cell<u64>,
}

impl Quiet {
    /// `Some(lines suppressed since the last)` where a line may be written now.
    pub fn allow(&self) -> Option<u64> {
        let now = Instant::now();
        if self.last.get().is_some_and(|last| now.duration_since(last) < PERIOD) {
            self.suppressed.set(self.suppressed.get() + 1);
            return None;
        }
        self.last.set(Some(now));
        Some(self.suppressed.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_period() {
        let quiet = Quiet::default();
        assert_eq!(quiet.allow(), Some(0));
        assert!((0..7).all(|_| quiet.allow().is_none()));
        quiet.last.set(Some(Instant::now() - PERIOD));
        assert_eq!(quiet.allow(), Some(7));
    }
}
