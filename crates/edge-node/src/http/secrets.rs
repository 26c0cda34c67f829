//! Secrets of requests and answers: drawn, hashed and sealed here, so that no core, frame, log or row ever has one.
//!
//! Always: a token's text, and the secret of a user's S3 key, are in the one answer that made them, and nowhere else; a password is
//! hashed before the core gets the call.
//! Not here: secrets of S3 accounts (chance.rs draws them), how secrets are sealed (access/sealing.rs).

use crate::access::sealing::Bound;
use crate::access::AccessHub;
use crate::chance;
use base_access::{access_key_of, Token};
use base_types::access::{AccessAction, AccessAnswer, Caller, CreateS3Key, ShownOnce};
use base_types::action::{Action, ActionResult, Request, Response};
use base_types::{ErrorCode, Refusal};

/// A secret on its way into the answer.
pub(super) enum Drawn {
    Token(Token),
    S3Secret(ShownOnce),
}

/// Draws, hashes and seals what a request needs. What was drawn is shown in its answer.
pub(super) async fn prepare(hub: &AccessHub, request: &mut Request) -> Result<Option<Drawn>, Refusal> {
    let Action::Access(call) = &mut request.action else { return Ok(None) };
    if request.caller == Caller::Anyone {
        // Nobody is known, so nothing is done: the core says why.
        return Ok(None);
    }
    match call {
        AccessAction::CreateToken(call) => {
            let token = chance::token().map_err(no_random)?;
            (call.id, call.hash) = (token.id, token.hash().to_string());
            return Ok(Some(Drawn::Token(token)));
        }
        AccessAction::CreateS3Key(call) => return s3_key(hub, call).await.map(Some),
        AccessAction::CreateUser(call) => {
            if let Some(password) = call.password.take() {
                call.password_hash = Some(hub.passwords.hash(password.0).await?);
            }
        }
        AccessAction::ChangeUser(call) => {
            if let Some(password) = call.password.take() {
                call.password_hash = Some(hub.passwords.hash(password.0).await?);
            }
        }
        _ => {}
    }
    Ok(None)
}

fn no_random(error: std::io::Error) -> Refusal {
    Refusal::new(ErrorCode::NotReady, format!("the operating system gives no random numbers for a secret: {error}"))
}

/// Draws a key and seals its secret for the user of that name. The core refuses it if that is another user by then, or nobody.
async fn s3_key(hub: &AccessHub, call: &mut CreateS3Key) -> Result<Drawn, Refusal> {
    call.id = chance::draw().map_err(no_random)?;
    let secret = chance::secret_key().map_err(no_random)?;
    call.user_id = hub.id_of(&call.user).await;
    let access_key = access_key_of(call.id);
    let bound = Bound { access_key: &access_key, user: &call.user, user_id: call.user_id };
    (call.sealed_by, call.sealed) = hub.sealing.seal(&secret, &bound)?;
    Ok(Drawn::S3Secret(ShownOnce(secret)))
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
