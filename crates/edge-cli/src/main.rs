//! The program `hive`. Everything is in the library beside it, where tests reach it.
//!
//! The allocator is jemalloc, for what it gives back after a burst: a thousand clusters made at once left 17 to 25 MiB
//! behind with mimalloc, eight to ten with this (docs/decisions/0017).

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How jemalloc is set, read by it at its start. A thread of its own gives free pages back, evenly within five
/// seconds: at one second busy nodes would fetch the pages of their log's batches anew again and again.
#[export_name = "_rjem_malloc_conf"]
pub static MALLOC_CONF: &[u8; 85] =
    b"background_thread:true,max_background_threads:1,dirty_decay_ms:5000,muzzy_decay_ms:0\0";

/// Empties the calling thread's cache of free blocks; what pages become free, the allocator's thread gives back.
fn give_back() {
    use std::ptr::null_mut;
    // SAFETY: the name ends in a zero, it takes and gives no value, and it touches blocks that are free only.
    // An answer other than 0 means that this build has no such caches.
    unsafe { tikv_jemalloc_sys::mallctl(c"thread.tcache.flush".as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
}

fn main() -> std::process::ExitCode {
    edge_node::memory::set_give_back(give_back);
    edge_cli::main()
}
