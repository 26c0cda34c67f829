//! Whom an ACL names: that they are there, and what they are called.
//!
//! By design: an account is looked up where an ACL is put, and where one is shown; an ACL outlives the accounts that it names.
//! Not here: what an ACL gives (`access`).

use crate::access::acl::GRANTS_MAX;
use crate::convert::DisplayNames;
use crate::error::{because, code, to_s3};
use crate::metadata::{ask, MetadataService};
use base_access::is_account_of_user;
use base_types::s3::{Acl, Buckets, Grantee, ListBuckets, S3ErrorCode};
use base_types::Refusal;
use s3s::S3Result;
use std::collections::BTreeSet;

/// The accounts of an ACL beside its owner.
fn others(acl: &Acl) -> BTreeSet<&str> {
    let accounts = acl.grants.iter().filter_map(|grant| match &grant.grantee {
        Grantee::CanonicalUser(id) => Some(id.as_str()),
        _ => None,
    });
    accounts.filter(|id| *id != acl.owner.id).collect()
}

/// The accounts that ACLs name.
pub(super) struct Grantees<'g>(pub(super) &'g dyn MetadataService);

impl Grantees<'_> {
    /// Refuses an ACL that gives something to an account that is not there. A user's is there before it owns anything.
    pub(super) async fn check(&self, acl: &Acl) -> S3Result<()> {
        if acl.grants.len() > GRANTS_MAX {
            return Err(code(S3ErrorCode::MalformedACLError));
        }
        for id in others(acl).into_iter().filter(|id| !is_account_of_user(id)) {
            match self.display_name(id).await {
                Ok(_) => {}
                Err(refusal) if refusal.code.s3() == Some(S3ErrorCode::NoSuchAccount) => {
                    return Err(because(S3ErrorCode::InvalidArgument, format!("Invalid id: there is no account {id}")))
                }
                Err(refusal) => return Err(to_s3(refusal)),
            }
        }
        Ok(())
    }

    /// What the accounts of an ACL are called, as far as that can be found out.
    pub(super) async fn names(&self, acl: &Acl) -> DisplayNames {
        let mut names = DisplayNames::from([(acl.owner.id.clone(), acl.owner.display_name.clone())]);
        for id in others(acl).into_iter().take(GRANTS_MAX) {
            if let Ok(name) = self.display_name(id).await {
                names.insert(id.to_owned(), name);
            }
        }
        names
    }

    async fn display_name(&self, account: &str) -> Result<String, Refusal> {
        let call = ListBuckets { account: account.to_owned(), max_buckets: Some(1), ..ListBuckets::default() };
        Ok(ask::<Buckets>(self.0, call).await?.owner.display_name)
    }
}
