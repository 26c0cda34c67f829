//! The suite every engine runs as its own tests: one promise, checked alike for all of them.
//!
//! An engine's tests implement [`EngineFactory`] and say
//! `base_engine::conformance_tests!(MyFactory::default());`, which makes one `#[test]` of each check.
//!
//! By design: each check asks the factory for a fresh engine and compares it with a `BTreeMap` twin;
//! random choices come from fixed seeds, so a failure repeats.
//! Not here: an engine's own damage and limits (its own tests), speed (its examples).

mod absence;
mod crash;
mod model;
mod points;
mod ranges;
mod snapshots;
mod spaces;
mod verifying;

pub use absence::{
    a_flipped_key_is_never_absence, an_engine_without_fences_gets_them, flip_key_in_files, take_fences_of_a_store_away,
};
pub use crash::{a_crash_keeps_what_was_acknowledged, a_failed_write_leaves_nothing};
pub use model::{batch, collect, delete, durable, put, Model, Random};
pub use points::{
    a_batch_is_atomic_and_its_last_operation_wins, a_batch_with_a_key_too_long_writes_nothing,
    keys_and_values_of_every_size, points_are_put_read_and_deleted, reopening_keeps_everything,
};
pub use ranges::{a_broken_visit_stops, random_histories_match_the_twin, ranges_match_the_twin};
pub use snapshots::{
    a_nested_read_of_a_snapshot_does_not_lock_up, a_snapshot_is_one_instant, a_snapshot_outlives_its_engine_handle,
    readers_never_see_half_a_batch,
};
pub use spaces::{
    dropping_a_space_is_bounded, export_and_import_carry_a_space, spaces_are_listed, the_durable_index_is_kept,
};
pub use verifying::verifying_meets_everything_and_finds_nothing;

use crate::{Engine, EngineError, WriteBatch};

/// How the suite gets at an engine.
pub trait EngineFactory {
    /// The engine under test.
    type Engine: Engine + 'static;

    /// A new, empty engine in a place of its own.
    fn open(&self) -> Self::Engine;

    /// Closes an engine in good order and opens what it left.
    fn reopen(&self, engine: Self::Engine) -> Self::Engine;

    /// Opens what a power loss would leave now; `engine` keeps running.
    fn crash(&self, engine: &Self::Engine) -> Self::Engine;

    /// Writes `batch` into `engine`, then opens things a machine could find that lost power at some
    /// moment of that write. `seed` chooses among them.
    fn crash_during(&self, engine: &Self::Engine, batch: &WriteBatch, seed: u64) -> Vec<Self::Engine>;

    /// Closes an engine, flips a bit in a stored copy of this key, and opens what is there then. `None`: there is none.
    fn flip_key(
        &self,
        _engine: Self::Engine,
        _key: &[u8],
        _random: &mut Random,
    ) -> Option<Result<Self::Engine, EngineError>> {
        None
    }

    /// Makes an engine one of the format before it had fences, whole otherwise; whether there is such a format.
    fn take_fences_away(&self, _engine: &Self::Engine) -> bool {
        false
    }

    /// Makes the next write of `engine` fail, if there is a way; says whether.
    fn fail_next_write(&self, _engine: &Self::Engine) -> bool {
        false
    }
}

/// Where tests keep files: in memory if there is such a place, for what they prove of a crash is in the
/// images they make, not in what a sync costs.
pub fn scratch() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    match memory.is_dir() && std::fs::metadata(memory).is_ok_and(|found| !found.permissions().readonly()) {
        true => memory.to_path_buf(),
        false => std::env::temp_dir(),
    }
}

/// Makes a `#[test]` of each check. The argument is an expression giving an [`EngineFactory`]. The one list of checks is here.
#[macro_export]
macro_rules! conformance_tests {
    ($factory:expr) => {
        $crate::conformance_tests!(@list tests $factory);
    };
    (@list $how:ident $factory:expr) => {
        $crate::conformance_tests!(@$how $factory;
            points_are_put_read_and_deleted,
            keys_and_values_of_every_size,
            a_batch_with_a_key_too_long_writes_nothing,
            a_batch_is_atomic_and_its_last_operation_wins,
            reopening_keeps_everything,
            ranges_match_the_twin,
            a_broken_visit_stops,
            random_histories_match_the_twin,
            a_snapshot_is_one_instant,
            a_snapshot_outlives_its_engine_handle,
            a_nested_read_of_a_snapshot_does_not_lock_up,
            readers_never_see_half_a_batch,
            the_durable_index_is_kept,
            spaces_are_listed,
            dropping_a_space_is_bounded,
            export_and_import_carry_a_space,
            a_crash_keeps_what_was_acknowledged,
            a_failed_write_leaves_nothing,
            verifying_meets_everything_and_finds_nothing,
            a_flipped_key_is_never_absence,
            an_engine_without_fences_gets_them,
        );
    };
    (@tests $factory:expr; $($check:ident,)*) => {
        $(
            #[test]
            fn $check() {
                $crate::conformance::$check(&$factory);
            }
        )*
    };
    (@run $factory:expr; $($check:ident,)*) => {
        $( $crate::conformance::$check($factory); )*
    };
}

/// Runs every check, one after the other: for a harness that is no `#[test]`.
pub fn run<F: EngineFactory>(factory: &F) {
    crate::conformance_tests!(@list run factory);
}
