//! The commands on users, roles, groups, tokens, S3 keys and tenants, as clap reads them.
//!
//! Not here: what they do (access.rs).

use super::World;
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand, Debug)]
pub enum UserCommand {
    /// Make a user; NAME@TENANT for a tenant's. Example: hive user create ann --role "writer on kv/photos/"
    Create {
        user: String,
        /// A role, or "ROLE on RESOURCE"; repeat it for more
        #[arg(long = "role")]
        roles: Vec<String>,
        /// A program: it has tokens and no password
        #[arg(long)]
        service: bool,
        /// A file with the password in its first line; - for standard input
        #[arg(long, conflicts_with = "service")]
        password_file: Option<PathBuf>,
        /// The etcd namespace that the user is in where it picks none
        #[arg(long)]
        namespace: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Set the etcd namespace that a user is in where it picks none
    #[command(group = clap::ArgGroup::new("which").required(true).args(["namespace", "no_namespace"]))]
    Set {
        user: String,
        #[arg(long)]
        namespace: Option<String>,
        /// The listener's namespace again
        #[arg(long)]
        no_namespace: bool,
        #[command(flatten)]
        world: World,
    },
    /// Show a user, its roles and what they allow
    Show {
        user: String,
        #[command(flatten)]
        world: World,
    },
    /// List users
    List {
        /// Only this tenant's
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Give a role to a user. Example: hive user grant ann reader --on kv/photos
    Grant {
        user: String,
        role: String,
        /// Only on this resource
        #[arg(long)]
        on: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Take a role from a user, named as it was granted
    Revoke {
        user: String,
        role: String,
        #[arg(long)]
        on: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Give a user another password, or none
    #[command(group = clap::ArgGroup::new("which").required(true).args(["password_file", "none"]))]
    Password {
        user: String,
        /// A file with the password in its first line; - for standard input
        #[arg(long)]
        password_file: Option<PathBuf>,
        /// The user has no password any more
        #[arg(long)]
        none: bool,
        #[command(flatten)]
        world: World,
    },
    /// Disable a user and its tokens, until it is enabled again
    Disable {
        user: String,
        #[command(flatten)]
        world: World,
    },
    /// Enable a disabled user
    Enable {
        user: String,
        #[command(flatten)]
        world: World,
    },
    /// Remove a user and all of its tokens
    Delete {
        user: String,
        #[command(flatten)]
        world: World,
    },
    /// Show the user that the token belongs to, and what the token allows
    Whoami {
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum RoleCommand {
    /// Make a role. Example: hive role create uploads --allow "write on bucket/in/new/" --allow "list on bucket/in"
    Create {
        role: String,
        /// "VERBS on RESOURCE"; repeat it for more
        #[arg(long = "allow", required = true)]
        rules: Vec<String>,
        /// Change the rules of a role that exists
        #[arg(long)]
        replace: bool,
        /// Let a security-admin give the role without having it
        #[arg(long)]
        grantable: bool,
        #[command(flatten)]
        world: World,
    },
    /// Show what a role allows
    Show {
        role: String,
        #[command(flatten)]
        world: World,
    },
    /// List roles, built-in ones first
    List {
        #[command(flatten)]
        world: World,
    },
    /// Remove a role; its users lose what it allowed
    Delete {
        role: String,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum GroupCommand {
    /// Make a group; a user whom the issuer puts into it has its roles. Example: hive group create devs --issuer https://login.example.org --role "writer on kv/dev-*"
    Create {
        /// Its name; NAME@TENANT for a tenant's
        group: String,
        /// The OIDC issuer, as access.oidc of node.toml has it
        #[arg(long)]
        issuer: String,
        /// The issuer's name for the group; by default the group's own name
        #[arg(long)]
        claim: Option<String>,
        /// A role, or "ROLE on RESOURCE"; repeat it for more
        #[arg(long = "role")]
        roles: Vec<String>,
        /// Change the roles of a group that exists
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        world: World,
    },
    /// List groups
    List {
        /// Only this tenant's
        #[arg(long)]
        tenant: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Remove a group; its members lose its roles within two seconds
    Delete {
        group: String,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make a token and print it, once. Example: hive token create ann --expires 30d --note laptop
    Create {
        user: String,
        /// How long it is valid: 90s, 30m, 12h, 30d; by default without end
        #[arg(long, value_parser = duration)]
        expires: Option<u64>,
        /// Only on this resource
        #[arg(long)]
        on: Option<String>,
        /// What it is for
        #[arg(long, default_value = "")]
        note: String,
        #[command(flatten)]
        world: World,
    },
    /// List tokens, of one user or of all; never the tokens themselves
    List {
        #[arg(long)]
        user: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Revoke a token; nodes refuse it within two seconds
    Revoke {
        /// Its id, as `hive token list` shows it
        id: String,
        /// Refuse if it belongs to another user
        #[arg(long)]
        user: Option<String>,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum S3KeyCommand {
    /// Make an S3 access key and print it, once. Example: hive key create ann --expires-in 30d --on bucket/photos/2024/
    Create {
        user: String,
        /// How long it is valid: 90s, 30m, 12h, 30d; by default without end
        #[arg(long, alias = "expires", value_parser = duration)]
        expires_in: Option<u64>,
        /// Allow nothing outside this resource, even if a role does
        #[arg(long)]
        on: Option<String>,
        /// What it is for
        #[arg(long, default_value = "")]
        note: String,
        #[command(flatten)]
        world: World,
    },
    /// List S3 access keys, of one user or of all; never their secrets
    List {
        #[arg(long)]
        user: Option<String>,
        #[command(flatten)]
        world: World,
    },
    /// Revoke an S3 access key; nodes refuse it within two seconds
    Revoke {
        access_key: String,
        /// Refuse if it belongs to another user
        #[arg(long)]
        user: Option<String>,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum TenantCommand {
    /// Make a tenant. Example: hive tenant create shop --owns "kv/shop-*" --owns "bucket/shop-*"
    Create {
        tenant: String,
        /// A resource that belongs to it; repeat it for more
        #[arg(long, required = true)]
        owns: Vec<String>,
        #[command(flatten)]
        world: World,
    },
    /// List tenants
    List {
        #[command(flatten)]
        world: World,
    },
    /// Remove a tenant that has no users and groups
    Delete {
        tenant: String,
        #[command(flatten)]
        world: World,
    },
}

/// Seconds of `90s`, `30m`, `12h`, `30d`.
fn duration(text: &str) -> Result<u64, String> {
    let wrong = || "write a number and s, m, h or d, for example 30d".to_string();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("90s"), Ok(90));
        assert_eq!(duration("2d"), Ok(172_800));
        for bad in ["", "5", "d", "-1d", "0s", "99999999999999999999d", "5é"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
