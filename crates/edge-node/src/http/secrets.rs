//! Secrets of requests and answers: drawn and hashed here, so that no core, frame, log or row ever has one.
//!
//! Always: a token's text is in the one answer that made it, and nowhere else; a password is hashed before the core gets the call.
//! Not here: secrets of S3 keys (chance.rs draws them).

use crate::access::AccessHub;
use crate::chance;
use base_access::Token;
use base_types::access::{AccessAction, AccessAnswer, Caller, ShownOnce};
use base_types::action::{Action, ActionResult, Request, Response};
use base_types::{ErrorCode, Refusal};

/// Draws and hashes what a request needs. What was drawn is shown in its answer.
pub(super) async fn prepare(hub: &AccessHub, request: &mut Request) -> Result<Option<Token>, Refusal> {
    let Action::Access(call) = &mut request.action else { return Ok(None) };
    if request.caller == Caller::Anyone {
        // Nobody is known, so nothing is done: the core says why.
        return Ok(None);
    }
    match call {
        AccessAction::CreateToken(call) => {
            let no_random = |error| {
                let message = format!("the operating system gives no random numbers for a token: {error}");
                Refusal::new(ErrorCode::NotReady, message)
            };
            let token = chance::token().map_err(no_random)?;
            (call.id, call.hash) = (token.id, token.hash().to_string());
            return Ok(Some(token));
        }
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

/// Puts what was drawn into the answer that made it.
pub(super) fn reveal(drawn: Option<Token>, response: &mut Response) {
    let (Some(token), Ok(answer)) = (drawn, response) else { return };
    if let ActionResult::Access(AccessAnswer::Token(info)) = &mut answer.result {
        info.token = Some(ShownOnce(token.reveal()));
    }
}
