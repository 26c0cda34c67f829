//! `hive user`, `hive role`, `hive token`, `hive tenant`: who may do what.
//!
//! Always: a password is read from a file or standard input, never from arguments; a token is printed once, by the command that made
//! it.
//! Not here: what roles allow (docs/guides/access.md), keys of S3 accounts (ctl/s3.rs).

use crate::arguments::{Levels, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, items, table};
use clap::Subcommand;
use serde_json::{json, Value};
use std::path::PathBuf;

/// The most pages that are read.
const PAGES_MAX: usize = 1_000;

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
    /// A user may do nothing for now; its tokens neither
    Disable {
        user: String,
        #[command(flatten)]
        world: World,
    },
    /// A disabled user may work again
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
    /// Who the token that is shown belongs to, and what it allows
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
    /// Remove a role: its users keep nothing of it
    Delete {
        role: String,
        #[command(flatten)]
        world: World,
    },
}

#[derive(Subcommand, Debug)]
pub enum TokenCommand {
    /// Make a token and print it, once. Example: hive token create ann --expires 30d --note laptop
    Create {
        user: String,
        /// For so long: 90s, 30m, 12h, 30d; without end where absent
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
    /// End a token: within two seconds no node takes it
    Revoke {
        /// Its id, as `hive token list` shows it
        id: String,
        /// Refuse if it is another user's
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
    /// Remove a tenant that has no users
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

/// Asks once and shows the answer.
async fn once(world: &World, body: Value, show: impl FnOnce(&Value)) -> Result<(), Failure> {
    let answer = ask(&client(world, &Levels::default())?, world, body).await?;
    if world.json {
        println!("{answer}");
    } else {
        show(&answer);
    }
    Ok(())
}

/// All pages of a list.
async fn pages(world: &World, mut body: Value, name: &str) -> Result<Vec<Value>, Failure> {
    let client = client(world, &Levels::default())?;
    let mut all = Vec::new();
    for _ in 0..PAGES_MAX {
        let answer = ask(&client, world, body.clone()).await?;
        all.extend(items(&answer, name).iter().cloned());
        match answer["next"].as_str() {
            Some(next) => body["start_after"] = next.into(),
            None => return Ok(all),
        }
    }
    Err(Failure::refused(format!("more than {PAGES_MAX} pages of {name}; narrow the list")))
}

fn lines(list: &Value) -> String {
    let all: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if all.is_empty() {
        return "-".into();
    }
    all.join("\n")
}

fn show_user(user: &Value) {
    println!("user      {}", cell(&user["user"]));
    if let Some(tenant) = user["tenant"].as_str() {
        println!("tenant    {tenant}");
    }
    let kind = if user["service"] == true { "service" } else { "person" };
    let state = if user["disabled"] == true { ", disabled" } else { "" };
    let password = if user["password"] == true { ", has a password" } else { "" };
    println!("kind      {kind}{password}{state}");
    println!("roles     {}", lines(&user["roles"]).replace('\n', "\n          "));
    println!("allowed   {}", lines(&user["allowed"]).replace('\n', "\n          "));
}

/// `hive user …`
pub async fn user(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Create { user, roles, service, password_file, world } => {
            let password = password_file.as_deref().map(crate::ctl::read_secret).transpose()?;
            let body =
                json!({"action": "CreateUser", "user": user, "roles": roles, "service": service, "password": password});
            once(&world, body, |_| println!("user {user} is made; `hive token create {user}` gives it a token")).await
        }
        UserCommand::Show { user, world } => {
            once(&world, json!({"action": "DescribeUser", "user": user}), show_user).await
        }
        UserCommand::Whoami { world } => once(&world, json!({"action": "WhoAmI"}), show_user).await,
        UserCommand::List { tenant, world } => {
            let all = pages(&world, json!({"action": "ListUsers", "tenant": tenant}), "users").await?;
            if world.json {
                println!("{}", json!({"ok": true, "users": all}));
                return Ok(());
            }
            let mut out = table(["USER", "KIND", "STATE", "ROLES"]);
            for user in &all {
                let kind = if user["service"] == true { "service" } else { "person" };
                let state = if user["disabled"] == true { "disabled" } else { "active" };
                out.add_row([cell(&user["user"]), kind.into(), state.into(), lines(&user["roles"])]);
            }
            println!("{out}");
            Ok(())
        }
        UserCommand::Grant { user, role, on, world } => {
            let body = json!({"action": "GrantRole", "user": user, "role": role, "on": on});
            once(&world, body, |_| println!("user {user} has the role {role}")).await
        }
        UserCommand::Revoke { user, role, on, world } => {
            let body = json!({"action": "RevokeRole", "user": user, "role": role, "on": on});
            once(&world, body, |_| println!("user {user} no longer has the role {role}")).await
        }
        UserCommand::Password { user, password_file, none, world } => {
            let password = password_file.as_deref().map(crate::ctl::read_secret).transpose()?;
            let body = json!({"action": "ChangeUser", "user": user, "password": password, "no_password": none});
            once(&world, body, |_| println!("the password of user {user} is changed")).await
        }
        UserCommand::Disable { user, world } => {
            let body = json!({"action": "ChangeUser", "user": user, "disabled": true});
            once(&world, body, |_| println!("user {user} may do nothing; `hive user enable {user}` undoes that")).await
        }
        UserCommand::Enable { user, world } => {
            let body = json!({"action": "ChangeUser", "user": user, "disabled": false});
            once(&world, body, |_| println!("user {user} may work again")).await
        }
        UserCommand::Delete { user, world } => {
            let body = json!({"action": "DeleteUser", "user": user});
            once(&world, body, |_| println!("user {user} and its tokens are removed")).await
        }
    }
}

/// `hive role …`
pub async fn role(command: RoleCommand) -> Result<(), Failure> {
    match command {
        RoleCommand::Create { role, rules, replace, world } => {
            let split = |rule: &String| match rule.split_once(" on ") {
                Some((verbs, on)) => Ok(json!({"verbs": verbs, "on": on})),
                None => Err(Failure::usage(format!(
                    "--allow '{rule}': write VERBS on RESOURCE, for example \"read,list on kv/photos\""
                ))),
            };
            let rules = rules.iter().map(split).collect::<Result<Vec<_>, _>>()?;
            let body = json!({"action": "CreateRole", "role": role, "rules": rules, "replace": replace});
            once(&world, body, |_| println!("role {role} is made; `hive user grant USER {role}` gives it to a user"))
                .await
        }
        RoleCommand::Show { role, world } => {
            once(&world, json!({"action": "DescribeRole", "role": role}), |answer| {
                println!("{}", lines(&answer["rules"]))
            })
            .await
        }
        RoleCommand::List { world } => {
            once(&world, json!({"action": "ListRoles"}), |answer| {
                let mut out = table(["ROLE", "BUILT IN", "ALLOWS"]);
                for role in items(answer, "roles") {
                    let builtin = if role["builtin"] == true { "yes" } else { "no" };
                    let about = role["about"].as_str().map_or_else(|| lines(&role["rules"]), String::from);
                    out.add_row([cell(&role["role"]), builtin.into(), about]);
                }
                println!("{out}");
            })
            .await
        }
        RoleCommand::Delete { role, world } => {
            let body = json!({"action": "DeleteRole", "role": role});
            once(&world, body, |_| println!("role {role} is removed")).await
        }
    }
}

/// `hive token …`
pub async fn token(command: TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create { user, expires, on, note, world } => {
            let body = json!({"action": "CreateToken", "user": user, "expires_in_s": expires, "on": on, "note": note});
            once(&world, body, |answer| {
                // The token alone goes to standard output, so that `> file` keeps just that.
                println!("{}", cell(&answer["token"]));
                eprintln!("token {} of user {user}; it is not shown again", cell(&answer["id"]));
            })
            .await
        }
        TokenCommand::List { user, world } => {
            let all = pages(&world, json!({"action": "ListTokens", "user": user}), "tokens").await?;
            if world.json {
                println!("{}", json!({"ok": true, "tokens": all}));
                return Ok(());
            }
            let mut out = table(["ID", "USER", "ON", "EXPIRES", "NOTE"]);
            for token in &all {
                let expires = match token["expires_ms"].as_u64() {
                    Some(ms) => crate::ctl::day(&ms.into()),
                    None => "never".into(),
                };
                out.add_row([
                    cell(&token["id"]),
                    cell(&token["user"]),
                    cell(&token["on"]),
                    expires,
                    cell(&token["note"]),
                ]);
            }
            println!("{out}");
            Ok(())
        }
        TokenCommand::Revoke { id, user, world } => {
            let body = json!({"action": "RevokeToken", "id": id, "user": user});
            once(&world, body, |_| println!("token {id} is revoked")).await
        }
    }
}

/// `hive tenant …`
pub async fn tenant(command: TenantCommand) -> Result<(), Failure> {
    match command {
        TenantCommand::Create { tenant, owns, world } => {
            let body = json!({"action": "CreateTenant", "tenant": tenant, "owns": owns});
            let text = format!("tenant {tenant} is made; its users are called NAME@{tenant} (`hive user create`)");
            once(&world, body, |_| println!("{text}")).await
        }
        TenantCommand::List { world } => {
            once(&world, json!({"action": "ListTenants"}), |answer| {
                let mut out = table(["TENANT", "OWNS"]);
                for tenant in items(answer, "tenants") {
                    out.add_row([cell(&tenant["tenant"]), lines(&tenant["owns"])]);
                }
                println!("{out}");
            })
            .await
        }
        TenantCommand::Delete { tenant, world } => {
            let body = json!({"action": "DeleteTenant", "tenant": tenant});
            once(&world, body, |_| println!("tenant {tenant} is removed")).await
        }
    }
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
