//! The program `hive`. Everything is in the library beside it, where tests reach it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    edge_cli::main()
}
