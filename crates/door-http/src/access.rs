//! The calls on users, roles, tokens and tenants in JSON: an object's fields to an [`AccessAction`], an [`AccessAnswer`] to fields.
//!
//! Always: the fields are those of the structs in `base_types::access`, read by name; unknown, missing and wrong ones are refused
//! by name (`tests::wrong_fields_are_named`); a password never comes back.
//! Not here: hashing and drawing secrets (edge-node).

use crate::json::Value;
use crate::s3::{write_fields, Tree, Wrong};
use base_types::access::{AccessAction, AccessAnswer};
use base_types::{ErrorCode, Refusal};
use std::borrow::Cow;

/// Whether a request of this name is one of these calls. The one that a node makes by itself is none.
pub(crate) fn is_call(name: &str) -> bool {
    name != "CreateRoot" && AccessAction::NAMES.contains(&name)
}

/// Reads the call of this name from what is left of the body when the common fields are taken out.
pub(crate) fn parse(name: &str, fields: Vec<(Cow<'_, str>, Value<'_>)>) -> Result<AccessAction, Refusal> {
    let parsed = AccessAction::read(name, Tree(Value::Object(fields)));
    let refuse = |wrong: Wrong| Refusal::new(wrong.code, format!("action {name}: {}", wrong.message));
    match parsed {
        Some(call) => call.map_err(refuse),
        None => Err(Refusal::new(
            ErrorCode::UnknownAction,
            format!("there is no action {name}; docs/guides/api lists them"),
        )),
    }
}

/// Writes an answer's fields, each with a comma before it.
pub(crate) fn write_answer(answer: &AccessAnswer, out: &mut Vec<u8>) {
    write_fields(out, |out| answer.write(&mut serde_json::Serializer::new(out)));
}

#[cfg(test)]
mod tests {
    use crate::{parse_request, write_response, Limits};
    use base_types::access::{AccessAction, AccessAnswer, ShownOnce, TokenInfo};
    use base_types::action::{Action, ActionResult, Answer};
    use base_types::ErrorCode;

    fn read(body: &'static str) -> Result<AccessAction, base_types::Refusal> {
        match parse_request(body.into(), &Limits::default()) {
            Ok(request) => match request.action {
                Action::Access(call) => Ok(call),
                other => panic!("{other:?}"),
            },
            Err(error) => Err(error.refusal),
        }
    }

    #[test]
    fn calls_are_read() {
        let call = read(r#"{"action":"CreateUser","user":"ann","roles":["reader on kv/a/"],"password":"x"}"#).unwrap();
        let AccessAction::CreateUser(call) = call else { panic!("{call:?}") };
        assert_eq!((call.user.as_str(), call.roles.len(), call.service), ("ann", 1, false));
        assert_eq!(call.password.as_ref().map(|password| password.0.as_str()), Some("x"));
        assert!(!format!("{call:?}").contains("\"x\""), "{call:?}");
        assert!(read(r#"{"action":"ListUsers"}"#).is_ok());
        assert!(read(r#"{"action":"WhoAmI"}"#).is_ok());
    }

    #[test]
    fn wrong_fields_are_named() {
        for (body, code, part) in [
            (r#"{"action":"CreateUser"}"#, ErrorCode::MissingField, "user"),
            (r#"{"action":"CreateUser","user":"a","rolls":[]}"#, ErrorCode::UnknownField, "rolls"),
            (r#"{"action":"CreateUser","user":"a","password_hash":"x"}"#, ErrorCode::UnknownField, "password_hash"),
            (r#"{"action":"CreateToken","user":"a","hash":"x"}"#, ErrorCode::UnknownField, "hash"),
            (r#"{"action":"CreateS3Key","user":"a","sealed":"x"}"#, ErrorCode::UnknownField, "sealed"),
            (r#"{"action":"CreateToken","user":7}"#, ErrorCode::InvalidField, "user"),
            (r#"{"action":"CreateRoot","id":1,"hash":"x","user_id":2}"#, ErrorCode::UnknownAction, "CreateRoot"),
            (r#"{"action":"WhoAmI","credential":1}"#, ErrorCode::UnknownField, "credential"),
        ] {
            let refusal = read(body).unwrap_err();
            assert_eq!(refusal.code, code, "{body}: {}", refusal.message);
            assert!(refusal.message.contains(part), "{body}: {}", refusal.message);
        }
    }

    #[test]
    fn answers_are_flat() {
        let token =
            TokenInfo { id: "00".into(), token: Some(ShownOnce("t".into())), user: "a".into(), ..TokenInfo::default() };
        let result = ActionResult::Access(AccessAnswer::Token(Box::new(token)));
        let (_, body) = write_response("CreateToken", &Ok(Answer { result, at: None, cluster: None, level: None }));
        assert_eq!(String::from_utf8(body).unwrap(), r#"{"ok":true,"id":"00","token":"t","user":"a","created_ms":0}"#);
    }
}
