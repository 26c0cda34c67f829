//! Who may do what. One pure decision for every door, and the directory it is made by.
//!
//! ```text
//!   credential (token, user) ──▶ Directory ──▶ Identity { rules, changed_at }
//!   Action ──▶ needs.rs: verbs on resources ──▶ decide(identity, needs) ──▶ Ok | Refusal
//! ```
//!
//! ```text
//!   verb.rs        the verbs, and sets of them           pattern.rs    resources that a rule covers
//!   role.rs        rules, roles, the built-in ones       row.rs        what the directory keeps, in JSON
//!   directory.rs   all rows of one epoch, compiled       needs.rs      what each action needs
//!   decide.rs      the decision                          token.rs      bearer tokens: text, hash, comparison
//!   s3key.rs       S3 access keys and accounts of users   directory/oidc.rs  groups of users of OIDC issuers
//!   cover.rs       whether rules give no more than others
//! ```
//!
//! Always: what no rule allows is refused (`decide::tests::nothing_is_allowed_by_default`); each action says what it needs
//! (`needs::for_each` has no default arm); work is bounded by [`RULES_MAX`] rules an identity. Nothing here reads a clock.
//! Not here: where the directory is kept (core-access), who asks and how it is proved (edge-node), bucket policies (door-s3).
//! Why: docs/decisions/0072-one-decision-for-every-door.md.

mod cover;
mod decide;
mod directory;
mod needs;
mod pattern;
mod role;
mod row;
mod s3key;
mod token;
mod verb;

pub use cover::{is_everything, uncovered};
pub use decide::{allow, decide, Caller};
pub use directory::{Change, Directory, Everything, Identity, CLAIM_BYTES_MAX, GROUPS_MAX, RULES_MAX};
pub use needs::for_each as for_each_need;
pub use needs::Need;
pub use pattern::{Keys, Kind, Pattern, PatternError, Target, PATTERN_BYTES_MAX};
pub use role::{builtin, Binding, Role, Rule, BUILTIN_ROLES};
pub use row::{
    check_name, GroupRow, Requests, RoleRow, Row, RowBody, RowName, S3KeyRow, TenantRow, TokenRow, UserRow,
    BINDINGS_MAX, NAME_BYTES_MAX, ROOT_USER,
};
pub use s3key::{access_key_of, account_of, account_of_oidc, credential_of, is_account_of_user};
pub use token::{Token, TokenHash, TOKEN_BYTES};
pub use verb::{Verb, Verbs};
