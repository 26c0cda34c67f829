//! Why a command failed, as an exit code and a line for people.

use hive_client::ClientError;

/// A failed command.
#[derive(Debug)]
pub struct Failure {
    /// 1 refused, 2 usage, 3 unavailable, 4 outcome unknown.
    pub code: u8,
    /// For standard error; empty where all has been said.
    pub message: String,
}

impl Failure {
    /// The request was understood and not done.
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { code: 1, message: message.into() }
    }

    /// The command line or a file it names is wrong.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: 2, message: message.into() }
    }

    /// Nothing answers.
    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure { code: 3, message: message.into() }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure { code: error.exit_code(), message: error.to_string() }
    }
}
