//! `hive ca`: the certificate authority.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum CaCommand {
    /// Make a new authority for a world
    Init {
        /// Where its certificate and key go
        #[arg(long)]
        dir: PathBuf,
        /// The world's name
        #[arg(long)]
        world: String,
        /// Make the authority of clients: it signs certificates of client doors and of users
        #[arg(long)]
        clients: bool,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Issue a certificate: for a node, or (by the authority of clients) for a client door or a user
    #[command(group = clap::ArgGroup::new("whose").required(true).args(["node", "server", "user"]))]
    Issue {
        /// The authority's directory
        #[arg(long)]
        dir: PathBuf,
        /// The node's id
        #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
        node: Option<u64>,
        /// A name for the certificate of client doors, for example the node's id; --address says what it certifies
        #[arg(long, requires = "addresses")]
        server: Option<String>,
        /// The user's name
        #[arg(long, conflicts_with = "addresses")]
        user: Option<String>,
        /// Names or addresses by which others reach the node; with --server also *.DOMAIN
        #[arg(long = "address", value_delimiter = ',')]
        addresses: Vec<String>,
        /// How long it is valid
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Revoke a certificate: put it on its authority's revocation list (crl.pem, for tls.client_revocations or
    /// certificates.revocations)
    #[command(group = clap::ArgGroup::new("which").required(true).args(["node", "user", "certificate", "serial"]))]
    Revoke {
        /// The authority's directory
        #[arg(long)]
        dir: PathBuf,
        /// Revoke the newest certificate of this node in the directory
        #[arg(long)]
        node: Option<u64>,
        /// Revoke the newest certificate of this user in the directory
        #[arg(long)]
        user: Option<String>,
        /// The certificate's file
        #[arg(long)]
        certificate: Option<PathBuf>,
        /// The certificate's serial number, as `hive ca show --json` has it
        #[arg(long)]
        serial: Option<String>,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Show the authority and what it issued
    Show {
        /// The authority's directory
        #[arg(long)]
        dir: PathBuf,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
    /// Make a new authority key; nodes trust the old one too until it expires
    Rotate {
        /// The authority's directory
        #[arg(long)]
        dir: PathBuf,
        /// JSON for machines instead of text
        #[arg(long)]
        json: bool,
    },
}
