//! Where the last panic of this thread was: a run that panics is a finding, told with its place.

use std::cell::RefCell;

thread_local! {
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are no longer printed, only remembered.
pub fn remember() {
    std::panic::set_hook(Box::new(|info| {
        let place =
            info.location().map_or_else(|| "an unknown place".to_string(), |at| format!("{}:{}", at.file(), at.line()));
        PLACE.with(|last| *last.borrow_mut() = place);
    }));
}

/// Where this thread last panicked.
pub fn last_place() -> String {
    PLACE.with(|last| last.borrow().clone())
}
