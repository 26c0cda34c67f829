//! The world's first token: made once, by whichever node is first, into a file that only the node's user reads.
//!
//! ```text
//!   no users? ─▶ candidate in root-token.new ─▶ CreateRoot ─done─▶ root-token        ─exists─▶ is it ours? ─no─▶ gone
//! ```
//!
//! Always: the token is on disk before its hash is in the directory, so that no crash leaves a root that nobody has; at most one
//! node's candidate becomes the root token.
//! Held by: `the_root_is_made_once_by_nodes`, `root_is_made_once`.
//! Not here: the way in when all tokens are lost (the Unix socket, http.rs).

use super::AccessHub;
use crate::lane::door::LaneDoor;
use base_access::Token;
use base_types::access::{AccessAction, Caller, CreateRoot};
use base_types::action::{Action, Request};
use base_types::{ErrorCode, DEADLINE_DEFAULT};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The file in the data directory with the root token.
pub const FILE: &str = "root-token";
const CANDIDATE: &str = "root-token.new";
/// The pause between two tries: the world may still be forming.
const PAUSE: Duration = Duration::from_millis(500);

/// Makes the root token, if the world has no root user yet, and logs where it is.
pub async fn run(hub: Arc<AccessHub>, door: Rc<LaneDoor>, data: std::path::PathBuf) {
    if !hub.required() {
        return;
    }
    loop {
        // Somebody has made users: it is not the world's first start.
        if hub.directory().epoch() > 0 {
            return settle(&hub, &data);
        }
        match create(&door, &data).await {
            Ok(()) => {}
            Err(reason) => tracing::debug!(reason, "the root token is not made yet"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// There are users: a candidate is either the root user's token, or nothing.
fn settle(hub: &AccessHub, data: &Path) {
    let Ok(text) = std::fs::read_to_string(data.join(CANDIDATE)) else { return };
    let ours = Token::parse(text.trim()).is_some_and(|token| hub.directory().proves(&token));
    let path = data.join(FILE);
    let moved = if ours {
        std::fs::rename(data.join(CANDIDATE), &path).and_then(|()| std::fs::File::open(data)?.sync_all())
    } else {
        std::fs::remove_file(data.join(CANDIDATE))
    };
    match moved {
        Ok(()) if ours => {
            tracing::warn!(file = %path.display(), "the world's root token is in this file: use it to make users (`hive user create`), then move it to a safe place")
        }
        Ok(()) => {}
        Err(error) => {
            tracing::error!(%error, file = CANDIDATE, "the new root token's file cannot be renamed to root-token, or removed if another token counts: check the rights of the data directory")
        }
    }
}

async fn create(door: &Rc<LaneDoor>, data: &Path) -> Result<(), String> {
    let token = candidate(data).map_err(|error| format!("{CANDIDATE}: {error}"))?;
    let user_id = crate::chance::draw().map_err(|error| error.to_string())?;
    let call = CreateRoot { id: token.id, hash: token.hash().to_string(), user_id };
    let request = Request {
        action: Action::Access(AccessAction::from(call)),
        consistency: None,
        read_consistency: None,
        deadline: DEADLINE_DEFAULT,
        request_id: None,
        after: None,
        expected_bucket_owner: None,
        caller: Caller::Node,
    };
    match door.clone().ask(request).await {
        Ok(_) => Ok(()),
        Err(failure) if failure.refusal.code == ErrorCode::UserExists => Ok(()),
        Err(failure) => Err(failure.refusal.to_string()),
    }
}

/// The candidate on disk, or a new one.
fn candidate(data: &Path) -> std::io::Result<Token> {
    if let Some(token) = std::fs::read_to_string(data.join(CANDIDATE)).ok().and_then(|text| Token::parse(text.trim())) {
        return Ok(token);
    }
    let token = crate::chance::token()?;
    edge_disk::files::write_whole(data, CANDIDATE, format!("{}\n", token.reveal()).as_bytes())?;
    Ok(token)
}
