//! Secrets of requests and answers: drawn, hashed and sealed here, so that no core, frame, log or row ever has one.
//!
//! Always: a token's text, and the secret of a user's S3 key, are in the one answer that made them, and nowhere else; a password is
//! hashed before the core gets the call.
//! A secret of an S3 account is in its request, for a client may give it, and beside it as it is kept: sealed, unless an open world
//! has no sealing key (decision 0076).
//! A retry with the same request id makes nothing twice: the ids of what a request makes follow from its own, and the secret of a
//! token or key whose answer was lost is replaced by the one of the retry.
//! In a debug build a request can make a node panic on purpose (`PANIC_VARIABLE`), for the test that a panic shows no secret
//! (scripts/secure_world.py). No other build has that.
//! Held by: `a_panic_shows_no_secret_in_flight`, and `scripts/secure_world.py`.
//! Not here: how secrets are sealed (access/sealing.rs), opened for the gateway (s3/metadata.rs).

use crate::access::s3_keys::{open_account_key, seal_account_key};
use crate::access::sealing::Bound;
use crate::access::AccessHub;
use crate::chance;
use crate::lane::door::LaneDoor;
use base_access::{access_key_of, Token};
use base_types::access::{AccessAction, AccessAnswer, Caller, CreateS3Key, ShownOnce};
use base_types::action::{Action, ActionResult, Failure, Request, Response};
use base_types::s3::{CreateAccessKey, GetAccessKey, S3Action, S3Answer};
use base_types::{ErrorCode, ReadConsistency, Refusal, RequestId};
use std::rc::Rc;

/// A secret on its way into the answer.
pub(crate) enum Drawn {
    Token(Token),
    S3Secret(ShownOnce),
}

/// Draws, hashes and seals what a request needs. What was drawn is shown in its answer.
pub(crate) async fn prepare(hub: &AccessHub, request: &mut Request) -> Result<Option<Drawn>, Refusal> {
    #[cfg(debug_assertions)]
    panic_if_asked(request);
    let known = request.caller != Caller::Anyone || !hub.required();
    if let (Action::S3(S3Action::CreateAccessKey(call)), true) = (&mut request.action, known) {
        seal_new(hub, call)?;
        return Ok(None);
    }
    let Action::Access(call) = &mut request.action else { return Ok(None) };
    if request.caller == Caller::Anyone {
        // Nobody is known, so nothing is done: the core says why.
        return Ok(None);
    }
    let (request_id, caller) = (request.request_id, request.caller.clone());
    let id_for = |what: &str| request_id.map(|request_id| id_of_request(request_id, &caller, what));
    match call {
        AccessAction::CreateToken(call) => {
            let mut token = chance::token().map_err(no_random)?;
            if let Some(id) = id_for(&format!("token of {}", call.user)) {
                (token.id, call.of_request) = (id, true);
            }
            (call.id, call.hash) = (token.id, token.hash().to_string());
            return Ok(Some(Drawn::Token(token)));
        }
        AccessAction::CreateS3Key(call) => {
            let id = id_for(&format!("S3 key of {}", call.user));
            return s3_key(hub, call, id).await.map(Some);
        }
        AccessAction::CreateTenant(call) => call.id = id_for(&format!("tenant {}", call.tenant)).unwrap_or(0),
        AccessAction::CreateRole(call) => call.id = id_for(&format!("role {}", call.role)).unwrap_or(0),
        AccessAction::CreateGroup(call) => call.id = id_for(&format!("group {}", call.group)).unwrap_or(0),
        AccessAction::CreateUser(call) => {
            call.id = id_for(&format!("user {}", call.user)).unwrap_or(0);
            if let Some(password) = call.password.take() {
                call.password_hash = Some(hub.passwords.hash(password.0).await?);
            }
        }
        AccessAction::GrantRole(call) => {
            let what = format!("grant to {} of {}", call.user, on_text(&call.role, call.on.as_deref()));
            call.id = id_for(&what).unwrap_or(0);
        }
        AccessAction::RevokeRole(call) => {
            let what = format!("revocation from {} of {}", call.user, on_text(&call.role, call.on.as_deref()));
            call.id = id_for(&what).unwrap_or(0);
        }
        AccessAction::ChangeUser(call) => {
            call.id = id_for(&format!("change of user {}", call.user)).unwrap_or(0);
            if let Some(password) = call.password.take() {
                call.password_hash = Some(hub.passwords.hash(password.0).await?);
            }
        }
        _ => {}
    }
    Ok(None)
}

fn on_text(role: &str, on: Option<&str>) -> String {
    format!("{role}\0{}", on.unwrap_or_default())
}

/// Where this variable names a user, a debug build panics when somebody known makes a user of that name.
#[cfg(debug_assertions)]
const PANIC_VARIABLE: &str = "HIVE_DEBUG_PANIC_ON_USER";

/// Panics as a failed assertion would that has the whole request in its text.
#[cfg(debug_assertions)]
fn panic_if_asked(request: &Request) {
    let Action::Access(AccessAction::CreateUser(call)) = &request.action else { return };
    let asked = std::env::var(PANIC_VARIABLE).is_ok_and(|user| user == call.user);
    if asked && request.caller != Caller::Anyone {
        panic!("on purpose: {request:?}");
    }
}

fn no_random(error: std::io::Error) -> Refusal {
    Refusal::new(ErrorCode::NotReady, format!("the operating system gives no random numbers for a secret: {error}"))
}

/// The id of what a request makes. A client that retries finds what its first try made; nobody else can choose an id.
fn id_of_request(request_id: RequestId, caller: &Caller, what: &str) -> u64 {
    let who = match caller {
        Caller::Identity { credential, .. } => format!("{credential:016x}"),
        Caller::Oidc { user, .. } => user.account.clone(),
        Caller::Anyone | Caller::Node => String::new(),
    };
    let text = format!("hive id of request 1\0{:032x}\0{who}\0{what}", request_id.0);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let first = digest.as_ref().first_chunk::<8>().copied().unwrap_or_default();
    u64::from_le_bytes(first).max(1)
}

/// Draws a key and seals its secret for the user of that name. The core refuses it if that is another user by then, or nobody.
async fn s3_key(hub: &AccessHub, call: &mut CreateS3Key, id: Option<u64>) -> Result<Drawn, Refusal> {
    call.of_request = id.is_some();
    call.id = id.map_or_else(chance::draw, Ok).map_err(no_random)?;
    let secret = chance::secret_key().map_err(no_random)?;
    call.user_id = hub.id_of(&call.user).await;
    let access_key = access_key_of(call.id);
    let bound = Bound::User { access_key: &access_key, user: &call.user, user_id: call.user_id };
    (call.sealed_by, call.sealed) = hub.sealing.seal(&secret, &bound)?;
    Ok(Drawn::S3Secret(ShownOnce(secret)))
}

/// Draws what is left to be drawn of an S3 account's key, and seals its secret. An open world without a sealing key keeps it as it
/// is: it gives everything to anybody who reaches it.
fn seal_new(hub: &AccessHub, call: &mut CreateAccessKey) -> Result<(), Refusal> {
    if !hub.sealing.seals() && !hub.required() {
        return Ok(());
    }
    let secret = call.secret_key.take().map_or_else(chance::secret_key, Ok).map_err(no_random)?;
    let access_key = call.access_key.take().map_or_else(chance::access_key, Ok).map_err(no_random)?;
    call.sealed = Some(seal_account_key(&hub.sealing, &call.account, &access_key, &secret)?);
    (call.access_key, call.secret_key) = (Some(access_key), Some(secret));
    Ok(())
}

/// What a key's row has now, as the caller may read it, and sealed by this node's first key: for `SealAccessKey`, which puts the one
/// in place of the other.
pub(super) async fn read_to_seal(hub: &AccessHub, door: Rc<LaneDoor>, request: &mut Request) -> Result<(), Failure> {
    let (deadline, caller) = (request.deadline, request.caller.clone());
    let Action::S3(S3Action::SealAccessKey(call)) = &mut request.action else { return Ok(()) };
    let read = Request {
        action: Action::S3(GetAccessKey { access_key: call.access_key.clone() }.into()),
        consistency: None,
        read_consistency: Some(ReadConsistency::Strong),
        deadline,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller,
    };
    let ActionResult::S3(S3Answer::AccessKey(key)) = door.ask(read).await?.result else {
        return Err(Refusal::new(ErrorCode::Internal, "GetAccessKey was answered with another call's answer").into());
    };
    let opened = open_account_key(&hub.sealing, (*key).clone())?;
    call.sealed = Some(seal_account_key(&hub.sealing, &key.account, &key.access_key, &opened.secret_key)?);
    call.read = Some(*key);
    Ok(())
}

/// Puts what was drawn into the answer that made it.
pub(super) fn reveal(drawn: Option<Drawn>, response: &mut Response) {
    let (Some(drawn), Ok(answer)) = (drawn, response) else { return };
    match (drawn, &mut answer.result) {
        (Drawn::Token(token), ActionResult::Access(AccessAnswer::Token(info))) => {
            info.token = Some(ShownOnce(token.reveal()));
        }
        (Drawn::S3Secret(secret), ActionResult::Access(AccessAnswer::S3Key(info))) => info.secret_key = Some(secret),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base_types::access::{ChangeUser, CreateToken, CreateUser, Secret};
    use base_types::action::Answer;
    use base_types::s3::{AccessKey, SealAccessKey};
    use door_s3::Signer;
    use std::panic::{catch_unwind, AssertUnwindSafe};
    use std::time::Duration;

    const CANARY: &str = "canary-in-flight";

    fn request(action: Action) -> Request {
        Request {
            action,
            consistency: None,
            read_consistency: None,
            deadline: Duration::from_secs(1),
            request_id: None,
            after: None,
            expected_bucket_owner: None,
            caller: Caller::Node,
        }
    }

    /// What a panic prints that has a value in its text, as assertions have.
    fn printed(value: &dyn std::fmt::Debug) -> String {
        let panic = catch_unwind(AssertUnwindSafe(|| panic!("unexpected: {value:?}"))).unwrap_err();
        *panic.downcast::<String>().unwrap()
    }

    #[test]
    fn a_panic_shows_no_secret_in_flight() {
        let password = || Some(Secret(CANARY.into()));
        let user = "ann".to_string();
        let create = CreateUser {
            user: user.clone(),
            service: false,
            roles: Vec::new(),
            password: password(),
            password_hash: None,
            namespace: None,
            id: 0,
        };
        let change: ChangeUser =
            serde_json::from_value(serde_json::json!({"user": "ann", "password": CANARY})).unwrap();
        let key = AccessKey {
            access_key: "AKEY".into(),
            secret_key: CANARY.into(),
            account: user.clone(),
            ..Default::default()
        };
        let make = CreateAccessKey { account: user, secret_key: Some(CANARY.into()), ..Default::default() };
        let seal = SealAccessKey { access_key: "AKEY".into(), read: Some(key.clone()), sealed: None };
        let token = Token::new(7, *b"canary-in-flightcanary-in-flight");
        let made = CreateToken {
            user: "ann".into(),
            expires_in_s: None,
            on: None,
            note: String::new(),
            id: token.id,
            hash: token.hash().to_string(),
            of_request: false,
        };
        let requests = [
            Action::Access(create.into()),
            Action::Access(change.into()),
            Action::Access(made.into()),
            Action::S3(make.into()),
            Action::S3(seal.into()),
        ];
        for action in requests {
            let text = printed(&request(action));
            assert!(!text.contains(CANARY) && !text.contains(&token.reveal()), "{text}");
        }
        let answer = Answer { result: ActionResult::S3(key.into()), at: None, level: None, cluster: None };
        let signer = Signer { secret_key: CANARY.into(), owner: Default::default(), user: None };
        for text in [printed(&answer), printed(&signer), printed(&token)] {
            assert!(!text.contains(CANARY) && !text.contains(&token.reveal()), "{text}");
        }
    }
}
