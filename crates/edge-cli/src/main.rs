//! The program `hive`. Everything is in the library beside it, where tests reach it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives the calling thread's free pages back to the system.
fn give_back() {
    // SAFETY: it may be called at any time from any thread; it only looks at memory that is free.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

fn main() -> std::process::ExitCode {
    edge_node::memory::set_give_back(give_back);
    edge_cli::main()
}
