//! The program `hive`. Everything is in the library beside it, where tests reach it.
//!
//! The allocator is jemalloc, for what it gives back after a burst: a thousand clusters made at once left 17 to 25 MiB
//! behind with mimalloc, eight to ten with this (docs/decisions/0066).

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How jemalloc is set, read by it at its start. A thread of its own gives free pages back, evenly within five
/// seconds: at one second busy nodes would fetch the pages of their log's batches anew again and again. One arena, and
/// one more for each further core: what half-empty pages cost is paid in each. Small blocks are kept in single pages, not
/// in groups of up to seven of which one block that stays keeps all.
#[export_name = "_rjem_malloc_conf"]
pub static MALLOC_CONF: &[u8; 115] =
    b"background_thread:true,max_background_threads:1,narenas:1,dirty_decay_ms:5000,muzzy_decay_ms:0,slab_sizes:1-1024:1\0";

/// Empties the calling thread's cache of free blocks; what pages become free, the allocator's thread gives back.
fn give_back() {
    use std::ptr::null_mut;
    // SAFETY: the name ends in a zero, it takes and gives no value, and it touches blocks that are free only.
    // An answer other than 0 means that this build has no such caches.
    unsafe { tikv_jemalloc_sys::mallctl(c"thread.tcache.flush".as_ptr(), null_mut(), null_mut(), null_mut(), 0) };
}

/// Makes an arena and has the calling thread take from it. Where there can be no more of them it stays with the first.
fn own_heap() {
    use std::ptr::null_mut;
    let mut arena: std::ffi::c_uint = 0;
    let mut bytes = std::mem::size_of_val(&arena);
    let place: *mut std::ffi::c_uint = &raw mut arena;
    // SAFETY: both names end in a zero; the first writes one unsigned integer of the size told, the second reads one.
    unsafe {
        if tikv_jemalloc_sys::mallctl(c"arenas.create".as_ptr(), place.cast(), &raw mut bytes, null_mut(), 0) == 0 {
            tikv_jemalloc_sys::mallctl(c"thread.arena".as_ptr(), null_mut(), null_mut(), place.cast(), bytes);
        }
    }
}

fn main() -> std::process::ExitCode {
    edge_node::memory::set_allocator(edge_node::memory::Allocator { give_back, own_heap });
    edge_cli::main()
}
