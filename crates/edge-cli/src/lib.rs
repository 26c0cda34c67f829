//! The command line `hive`: a node, a local world, and the tools of an operator.
//!
//! By design: exit code 0 done, 1 refused, 2 wrong usage, 3 unavailable, 4 outcome unknown; errors on
//! standard error, saying what to do; `--json` prints one JSON value on standard output.
//! Not here: the node itself (edge-node), the protocol (hive-client), workloads (proof-bench).

mod access;
mod arguments;
mod attach;
mod authority;
mod backup;
mod bench;
mod calendar;
mod config;
mod ctl;
mod dev;
mod engines;
mod failure;
mod kv;
mod load;
mod manual;
mod node;
mod output;
mod restore;
mod simple_kv;
mod text;
mod top;

pub use arguments::Arguments;

use arguments::Command;
use clap::Parser;
use failure::Failure;
use std::process::ExitCode;

/// Parses the process's arguments and runs the command.
pub fn main() -> ExitCode {
    quiet_broken_pipes();
    let arguments =
        Arguments::parse_from(engines::without_version(simple_kv::without_go(std::env::args_os().collect())));
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("hive: {}", failure.message);
            }
            ExitCode::from(failure.code)
        }
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let Some(command) = arguments.command else {
        print!("{}", engines::report(arguments.json));
        return Ok(());
    };
    if matches!(
        command,
        Command::Node(_) | Command::SimpleKv(_) | Command::Dev(_) | Command::Restore(_) | Command::Attach(_)
    ) {
        edge_node::private::new_files();
    }
    match command {
        Command::Node(node) => node::run(&node),
        Command::SimpleKv(node) => simple_kv::run(&node),
        Command::Dev(dev) => dev::run(dev),
        Command::Config(command) => config::run(command),
        Command::Ca(command) => authority::run(command),
        Command::User(command) => on_runtime(access::user(command)),
        Command::Role(command) => on_runtime(access::role(command)),
        Command::Token(command) => on_runtime(access::token(command)),
        Command::Group(command) => on_runtime(access::group(command)),
        Command::Tenant(command) => on_runtime(access::tenant(command)),
        Command::Key(command) => on_runtime(access::s3_key(command)),
        Command::Top(top) => on_runtime(top::run(top)),
        Command::Kv(command) => on_runtime(kv::run(command)),
        Command::Load(load) => on_runtime(load::run(load)),
        Command::Ctl(command) => on_runtime(ctl::run(command)),
        Command::Backup(command) => backup::run(command),
        Command::Bench(bench) => bench::run(bench),
        Command::Restore(restore) => restore.place.check().and_then(|()| restore::run(&restore)),
        Command::Attach(attach) => attach.place.check().and_then(|()| attach::run(&attach)),
        Command::Man { out } => manual::write(&out),
        Command::Completions { shell } => {
            manual::print_completions(shell);
            Ok(())
        }
    }
}

/// Runs a command that talks to a world.
fn on_runtime<F: std::future::Future<Output = Result<(), Failure>>>(command: F) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::refused(format!("cannot start: {error}")))?.block_on(command)
}

/// `hive … | head` must end quietly, as other tools do, and not with a panic of `println!`. SIGPIPE
/// itself stays ignored: with it, a peer that closes a socket would end the process.
fn quiet_broken_pipes() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = panic.payload().downcast_ref::<String>().map_or("", String::as_str);
        if message.starts_with("failed printing to stdout") {
            std::process::exit(0);
        }
        usual(panic);
    }));
}
