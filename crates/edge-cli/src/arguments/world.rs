//! What most commands share: how to reach a world, and levels.

use crate::failure::Failure;
use clap::Args;
use std::path::PathBuf;

/// Where a local world's nodes listen.
const ENDPOINTS_DEFAULT: &str =
    "http://127.0.0.1:7101,http://127.0.0.1:7102,http://127.0.0.1:7103,http://127.0.0.1:7104,http://127.0.0.1:7105";

/// Files in PEM for https:// endpoints.
#[derive(Args, Debug, Clone, Default)]
pub struct TlsFiles {
    /// The authorities whose certificates are trusted (https:// endpoints)
    #[arg(long = "ca", env = "HIVE_CA", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// A user's certificate, shown to the node; with --key
    #[arg(id = "tls_cert", long = "cert", env = "HIVE_CERT", value_name = "FILE", requires = "tls_key")]
    pub cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(id = "tls_key", long = "key", env = "HIVE_KEY", value_name = "FILE", requires = "tls_cert")]
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// What they hold; nothing where none is named.
    pub fn read(&self) -> Result<Option<hive_client::Tls>, Failure> {
        let own = self.cert.as_deref().zip(self.key.as_deref());
        match (&self.ca, own) {
            (Some(ca), own) => Ok(Some(hive_client::Tls::from_files(ca, own)?)),
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(Failure::usage("--cert and --key need --ca: the authority whose nodes may see the certificate"))
            }
        }
    }
}

/// How to reach a world.
#[derive(Args, Debug, Clone)]
pub struct World {
    /// HTTP endpoints, tried in turn
    #[arg(long = "endpoint", env = "HIVE_ENDPOINT", value_delimiter = ',', default_value = ENDPOINTS_DEFAULT, hide_default_value = true)]
    pub endpoints: Vec<String>,
    #[command(flatten)]
    pub tls: TlsFiles,
    /// A file with the bearer token to show; the token itself can be in the environment (HIVE_TOKEN)
    #[arg(long, env = "HIVE_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// How long to try, in milliseconds
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u64).range(1..=30_000))]
    pub deadline_ms: u64,
    /// JSON for machines instead of text
    #[arg(long)]
    pub json: bool,
}

/// Levels of a request.
#[derive(Args, Debug, Clone, Default)]
pub struct Levels {
    /// hopeful, eventual, strong, absolute or s3 (in a bucket); by default the cluster's own
    #[arg(long, value_parser = ["hopeful", "eventual", "strong", "absolute", "s3"])]
    pub consistency: Option<String>,
    /// strong or eventual; by default the cluster's own
    #[arg(long, value_parser = ["strong", "eventual"])]
    pub read_consistency: Option<String>,
}
