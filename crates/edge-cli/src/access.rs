//! `hive user`, `hive role`, `hive group`, `hive token`, `hive key`, `hive tenant`: who may do what.
//!
//! Always: a password is read from a file or standard input, never from arguments; a token or a secret is printed once, by the
//! command that made it.
//! Held by: `secrets_in_arguments_are_refused_and_not_repeated`.
//! Not here: the words of the commands (arguments/users.rs), what roles allow (docs/guides/access.md), keys of S3 accounts (ctl/s3.rs).

use crate::arguments::users::{GroupCommand, RoleCommand, S3KeyCommand, TenantCommand, TokenCommand, UserCommand};
use crate::arguments::{Levels, World};
use crate::failure::Failure;
use crate::output::{ask, cell, client, items, table};
use serde_json::{json, Value};

/// The most pages that are read.
const PAGES_MAX: usize = 1_000;

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
    let kind = match (&user["groups"], &user["service"]) {
        (Value::Array(_), _) => "known by an OIDC issuer",
        (_, Value::Bool(true)) => "service",
        _ => "person",
    };
    let state = if user["disabled"] == true { ", disabled" } else { "" };
    let password = if user["password"] == true { ", has a password" } else { "" };
    println!("kind      {kind}{password}{state}");
    if let Some(namespace) = user["namespace"].as_str() {
        println!("namespace {namespace}");
    }
    if user["groups"].is_array() {
        println!("groups    {}", lines(&user["groups"]).replace('\n', "\n          "));
    }
    println!("roles     {}", lines(&user["roles"]).replace('\n', "\n          "));
    println!("allowed   {}", lines(&user["allowed"]).replace('\n', "\n          "));
}

fn namespace_text(namespace: &str) -> String {
    match namespace {
        "" => "the namespace of the listener".into(),
        _ => format!("the namespace {namespace}, where they pick none"),
    }
}

/// `hive user …`
pub async fn user(command: UserCommand) -> Result<(), Failure> {
    match command {
        UserCommand::Create { user, roles, service, password_file, namespace, world } => {
            let password = password_file.as_deref().map(crate::ctl::read_secret).transpose()?;
            let mut body =
                json!({"action": "CreateUser", "user": user, "roles": roles, "service": service, "password": password});
            // Nodes of earlier builds do not know the field.
            if let Some(namespace) = namespace {
                body["namespace"] = namespace.into();
            }
            once(&world, body, |_| println!("user {user} is made; `hive token create {user}` gives it a token")).await
        }
        UserCommand::Show { user, world } => {
            once(&world, json!({"action": "DescribeUser", "user": user}), show_user).await
        }
        UserCommand::Set { user, namespace, no_namespace: _, world } => {
            // None: the listener's again.
            let namespace = namespace.unwrap_or_default();
            let body = json!({"action": "ChangeUser", "user": user, "namespace": namespace});
            once(&world, body, |_| println!("etcd clients of user {user} are in {}", namespace_text(&namespace))).await
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
            once(&world, body, |_| println!("user {user}, its tokens and S3 keys are removed")).await
        }
    }
}

/// `hive role …`
pub async fn role(command: RoleCommand) -> Result<(), Failure> {
    match command {
        RoleCommand::Create { role, rules, replace, grantable, world } => {
            let split = |rule: &String| match rule.split_once(" on ") {
                Some((verbs, on)) => Ok(json!({"verbs": verbs, "on": on})),
                None => Err(Failure::usage(format!(
                    "--allow '{rule}': write VERBS on RESOURCE, for example \"read,list on kv/photos\""
                ))),
            };
            let rules = rules.iter().map(split).collect::<Result<Vec<_>, _>>()?;
            let mut body = json!({"action": "CreateRole", "role": role, "rules": rules, "replace": replace});
            // Nodes of earlier builds do not know the field.
            if grantable {
                body["grantable"] = true.into();
            }
            once(&world, body, |_| println!("role {role} is made; `hive user grant USER {role}` gives it to a user"))
                .await
        }
        RoleCommand::Show { role, world } => {
            once(&world, json!({"action": "DescribeRole", "role": role}), |answer| {
                println!("{}", lines(&answer["rules"]));
                if answer["grantable"] == true {
                    println!("a security-admin may give it without having it");
                }
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

/// `hive group …`
pub async fn group(command: GroupCommand) -> Result<(), Failure> {
    match command {
        GroupCommand::Create { group, issuer, claim, roles, replace, world } => {
            let body = json!({
                "action": "CreateGroup", "group": group, "issuer": issuer, "claim": claim, "roles": roles, "replace": replace,
            });
            let text = format!("group {group} is made; who {issuer} puts into it has its roles");
            once(&world, body, |_| println!("{text}")).await
        }
        GroupCommand::List { tenant, world } => {
            let all = pages(&world, json!({"action": "ListGroups", "tenant": tenant}), "groups").await?;
            if world.json {
                println!("{}", json!({"ok": true, "groups": all}));
                return Ok(());
            }
            let mut out = table(["GROUP", "ISSUER", "CLAIM", "ROLES"]);
            for group in &all {
                out.add_row([
                    cell(&group["group"]),
                    cell(&group["issuer"]),
                    cell(&group["claim"]),
                    lines(&group["roles"]),
                ]);
            }
            println!("{out}");
            Ok(())
        }
        GroupCommand::Delete { group, world } => {
            let body = json!({"action": "DeleteGroup", "group": group});
            once(&world, body, |_| println!("group {group} is removed")).await
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
                    Some(ms) => crate::calendar::day(&ms.into()),
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

/// `hive key …`
pub async fn s3_key(command: S3KeyCommand) -> Result<(), Failure> {
    match command {
        S3KeyCommand::Create { user, expires_in, on, note, world } => {
            let body =
                json!({"action": "CreateS3Key", "user": user, "expires_in_s": expires_in, "on": on, "note": note});
            once(&world, body, |answer| {
                crate::ctl::show_key(answer);
                eprintln!(
                    "the secret is not shown again; policies of buckets call user {user} {}",
                    cell(&answer["account"])
                );
            })
            .await
        }
        S3KeyCommand::List { user, world } => {
            let all = pages(&world, json!({"action": "ListS3Keys", "user": user}), "keys").await?;
            if world.json {
                println!("{}", json!({"ok": true, "keys": all}));
                return Ok(());
            }
            let mut out = table(["ACCESS KEY", "USER", "ON", "EXPIRES", "NOTE"]);
            for key in &all {
                let expires = key["expires_ms"].as_u64().map_or("never".into(), |ms| crate::calendar::day(&ms.into()));
                out.add_row([
                    cell(&key["access_key"]),
                    cell(&key["user"]),
                    cell(&key["on"]),
                    expires,
                    cell(&key["note"]),
                ]);
            }
            println!("{out}");
            Ok(())
        }
        S3KeyCommand::Revoke { access_key, user, world } => {
            let body = json!({"action": "RevokeS3Key", "access_key": access_key, "user": user});
            once(&world, body, |_| println!("access key {access_key} is revoked")).await
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
