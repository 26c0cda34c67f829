//! What this core decides by: whether doors ask who somebody is, and the node's copy of the directory.
//!
//! Always: a request of a credential is decided before anything is done for it, and what was decided is looked at again wherever
//! an attempt begins and where it arrives (mutants `OwnerSkipsAccess`, `StaleDecisionAccepted`, `GatewayAsksAsNode`). A change that
//! leaves an OIDC user what it had is no reason to refuse it (`Access::renew`).
//! Not here: the decision itself (base-access), how the copy gets here (directory_sync.rs).

use base_access::{decide, Directory, Identity, Pattern, Rule};
use base_types::access::{Authority, Caller, OidcUser, OIDC_CREDENTIAL};
use base_types::action::Request;
use base_types::mutant::{planted, Mutant};
use base_types::{ErrorCode, Refusal};
use std::sync::Arc;

/// What a core knows of who may do what.
#[derive(Debug, Default)]
pub struct Access {
    required: bool,
    directory: Arc<Directory>,
}

/// For whom an operation is done, as it was decided.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Granted {
    /// What goes with it to its cluster's owner.
    pub authority: Authority,
    oidc: Option<Arc<OidcGrant>>,
}

/// What an OIDC user had when it was decided. Any change of a group, role or tenant ends what was decided for all OIDC users: which
/// groups one is in goes with no frame. Where the request came in, it is known.
#[derive(PartialEq, Eq, Debug)]
struct OidcGrant {
    user: Arc<OidcUser>,
    rules: Arc<[Rule]>,
    within: Option<Arc<[Pattern]>>,
}

impl Access {
    /// With an empty directory.
    pub fn new(required: bool) -> Access {
        Access { required, directory: Arc::default() }
    }

    /// Whether doors ask who somebody is.
    pub fn required(&self) -> bool {
        self.required
    }

    /// The node has another copy of the directory.
    pub fn learn(&mut self, directory: Arc<Directory>) {
        self.directory = directory;
    }

    /// Decides a request, and notes in it at which epoch.
    pub fn authorize(&self, request: &mut Request) -> Result<(), Refusal> {
        if !self.required {
            request.caller = Caller::Anyone;
            return Ok(());
        }
        let decided_at = match &request.caller {
            Caller::Node => return Ok(()),
            Caller::Anyone => return Err(unauthenticated()),
            Caller::Identity { decided_at, .. } | Caller::Oidc { decided_at, .. } => *decided_at,
        };
        if decided_at.is_some() {
            if planted(Mutant::GatewayAsksAsNode) {
                request.caller = Caller::Node;
            }
            return self.directory.resolve(&request.caller).map(|_| ()).ok_or_else(revoked);
        }
        self.decide(request)?;
        if let Caller::Identity { decided_at, .. } | Caller::Oidc { decided_at, .. } = &mut request.caller {
            *decided_at = Some(self.directory.epoch());
        }
        Ok(())
    }

    fn decide(&self, request: &Request) -> Result<(), Refusal> {
        match (self.directory.resolve(&request.caller), &request.caller) {
            (Some(identity), _) => decide(&identity, &request.action),
            // The issuer's word is good, and no group of the directory gives anything by it.
            (None, Caller::Oidc { user, .. }) => decide(&nobody(user), &request.action),
            (None, _) => Err(unauthenticated()),
        }
    }

    /// What goes with the operations of a request that was authorised.
    pub fn authority(&self, caller: &Caller) -> Authority {
        if self.required {
            caller.authority()
        } else {
            Authority::Anyone
        }
    }

    /// The same, with what is needed to decide again.
    pub fn grant(&self, caller: &Caller) -> Granted {
        let authority = self.authority(caller);
        let oidc = match (caller, authority) {
            // A door may have decided by an older copy: what the user had then is not known.
            (Caller::Oidc { user, .. }, Authority::Decided { credential, epoch })
                if self.directory.holds(credential, epoch) =>
            {
                let had = |own: Identity| OidcGrant { user: user.clone(), rules: own.rules, within: own.within };
                self.directory.oidc_identity(user).map(had).map(Arc::new)
            }
            _ => None,
        };
        Granted { authority, oidc }
    }

    /// What was decided, at this copy's epoch: where it is the same by this copy. The decision follows from the rules alone.
    pub fn renew(&self, granted: &Granted) -> Option<Granted> {
        let had = granted.oidc.as_ref()?;
        let has = self.directory.oidc_identity(&had.user)?;
        let authority = Authority::Decided { credential: OIDC_CREDENTIAL, epoch: self.directory.epoch() };
        (has.rules == had.rules && has.within == had.within).then(|| Granted { authority, oidc: granted.oidc.clone() })
    }

    /// What goes with this node's own operations.
    pub fn own_authority(&self) -> Authority {
        self.authority(&Caller::Node)
    }

    /// Refuses what does not hold (any more) by this node's copy.
    pub fn check(&self, authority: Authority) -> Result<(), Refusal> {
        match authority {
            _ if !self.required => Ok(()),
            Authority::Node => Ok(()),
            Authority::Anyone => {
                let message = "the node that forwarded the request asks nobody who they are, and this world must: set access.required in its node.toml";
                Err(Refusal::new(ErrorCode::Unauthenticated, message))
            }
            Authority::Decided { .. } if planted(Mutant::StaleDecisionAccepted) => Ok(()),
            // Its disk was lost: it does not know who was revoked, and learns that within seconds.
            Authority::Decided { .. } if self.directory.epoch() == 0 => {
                let message = "this node has no copy of the directory of users yet; retry";
                Err(Refusal::new(ErrorCode::PermissionsChanged, message))
            }
            Authority::Decided { credential, epoch } if self.directory.holds(credential, epoch) => Ok(()),
            Authority::Decided { .. } => {
                let message = "what the user may do changed while the request was under way; retry";
                Err(Refusal::new(ErrorCode::PermissionsChanged, message))
            }
        }
    }

    /// The same where another node's operation arrives.
    pub fn check_arrived(&self, authority: Authority) -> Result<(), Refusal> {
        if planted(Mutant::OwnerSkipsAccess) {
            return Ok(());
        }
        self.check(authority)
    }
}

/// An OIDC user without groups.
fn nobody(user: &OidcUser) -> Identity {
    Identity {
        user: user.name.as_str().into(),
        tenant: None,
        rules: Arc::default(),
        within: None,
        changed_at: 0,
        expires_ms: Some(user.expires_ms),
    }
}

fn revoked() -> Refusal {
    let message = "the key was revoked, or its user disabled or deleted, while the request was under way";
    Refusal::new(ErrorCode::Unauthenticated, message)
}

fn unauthenticated() -> Refusal {
    let message =
        "this node needs a credential: send `Authorization: Bearer` with a token (`hive token create`; HIVE_TOKEN or --token-file for the program hive)";
    Refusal::new(ErrorCode::Unauthenticated, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_without_a_directory_takes_nobodys_word() {
        let decided = Authority::Decided { credential: 7, epoch: 5 };
        let blank = Access::new(true);
        assert_eq!(blank.check_arrived(decided).map_err(|refusal| refusal.code), Err(ErrorCode::PermissionsChanged));
        assert!(blank.check_arrived(Authority::Node).is_ok());
        let mut knows = Access::new(true);
        knows.learn(Arc::new(Directory::new(4, Default::default())));
        assert!(knows.check_arrived(decided).is_ok(), "a user that was made later than the copy");
    }
}
