//! ACLs as S3 names them: canned ones, grant headers, and which are public.

use base_types::s3::{Acl, Grant, Grantee, Owner, Permission, S3ErrorCode};
use base_types::Refusal;

/// The most grants of an ACL.
pub const GRANTS_MAX: usize = 100;
const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
const LOG_DELIVERY: &str = "http://acs.amazonaws.com/groups/s3/LogDelivery";

/// The group that a URI names.
pub fn group(uri: &str) -> Result<Grantee, Refusal> {
    match uri {
        ALL_USERS => Ok(Grantee::AllUsers),
        AUTHENTICATED_USERS => Ok(Grantee::AuthenticatedUsers),
        LOG_DELIVERY => Ok(Grantee::LogDelivery),
        _ => Err(S3ErrorCode::InvalidArgument.because("Invalid group uri")),
    }
}

/// The URI of a group; `None` for one account.
pub fn group_uri(grantee: &Grantee) -> Option<&'static str> {
    match grantee {
        Grantee::AllUsers => Some(ALL_USERS),
        Grantee::AuthenticatedUsers => Some(AUTHENTICATED_USERS),
        Grantee::LogDelivery => Some(LOG_DELIVERY),
        Grantee::CanonicalUser(_) => None,
    }
}

/// Only the owner.
pub fn private(owner: Owner) -> Acl {
    let grants = vec![Grant { grantee: Grantee::CanonicalUser(owner.id.clone()), permission: Permission::FullControl }];
    Acl { owner, grants }
}

/// A canned ACL of a bucket (`bucket_owner` is then the owner too) or an object.
pub fn canned(name: &str, owner: Owner, bucket_owner: &str) -> Result<Acl, Refusal> {
    let mut acl = private(owner);
    let mut grant = |grantee: Grantee, permission| acl.grants.push(Grant { grantee, permission });
    match name {
        "private" => {}
        "public-read" => grant(Grantee::AllUsers, Permission::Read),
        "public-read-write" => {
            grant(Grantee::AllUsers, Permission::Read);
            grant(Grantee::AllUsers, Permission::Write);
        }
        "authenticated-read" => grant(Grantee::AuthenticatedUsers, Permission::Read),
        "aws-exec-read" => {}
        "log-delivery-write" => {
            grant(Grantee::LogDelivery, Permission::Write);
            grant(Grantee::LogDelivery, Permission::ReadAcp);
        }
        "bucket-owner-read" => grant(Grantee::CanonicalUser(bucket_owner.to_owned()), Permission::Read),
        "bucket-owner-full-control" => {
            grant(Grantee::CanonicalUser(bucket_owner.to_owned()), Permission::FullControl);
        }
        other => {
            let message = format!("x-amz-acl is '{other}'; it must be a canned ACL such as private or public-read");
            return Err(S3ErrorCode::InvalidArgument.because(message));
        }
    }
    acl.grants.dedup();
    Ok(acl)
}

/// The grants of one `x-amz-grant-…` header: `id="a", uri="http://…"`.
pub fn grants(header: &str, permission: Permission) -> Result<Vec<Grant>, Refusal> {
    let wrong = || S3ErrorCode::InvalidArgument.because(r#"a grant header must be a list of id="…" and uri="…""#);
    header
        .split(',')
        .map(|item| {
            let (kind, value) = item.trim().split_once('=').ok_or_else(wrong)?;
            let value = value.trim().trim_matches('"');
            let grantee = match kind.trim() {
                "id" if !value.is_empty() => Grantee::CanonicalUser(value.to_owned()),
                "uri" => group(value)?,
                "emailAddress" => return Err(S3ErrorCode::UnresolvableGrantByEmailAddress.into()),
                _ => return Err(wrong()),
            };
            Ok(Grant { grantee, permission })
        })
        .collect()
}

/// Whether it lets in callers nobody can name.
pub fn is_public(acl: &Acl) -> bool {
    acl.grants.iter().any(|grant| matches!(grant.grantee, Grantee::AllUsers | Grantee::AuthenticatedUsers))
}

/// Whether it gives nobody anything but the bucket's owner: what a bucket without ACLs still takes.
pub fn is_owner_only(acl: &Acl, bucket_owner: &str) -> bool {
    acl.grants.iter().all(|grant| {
        grant.permission == Permission::FullControl
            && matches!(&grant.grantee, Grantee::CanonicalUser(id) if id == bucket_owner)
    })
}
