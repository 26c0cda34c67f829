//! Accounts and access keys, rows of the world-wide directory (directory.rs).
//!
//! ```text
//!   CreateAccount   clusters ─▶ row Active
//!   DeleteAccount   no buckets? ─▶ row Deleting ─▶ still none? ─▶ keys ─▶ row Gone
//!                                      ▲ CreateBucket looks at the row again after it has put its entry
//! ```
//!
//! Always: every step may be repeated, by two runners at once or after a crash; a key of an account that was
//! deleted is none, even where its row was left; the name of an account that is gone is given to nobody again.
//! An account's cluster stays when the account goes.
//! Held by: `an_account_goes_with_its_keys_and_its_name_is_not_given_again`, `one_of_two_gets_an_access_key`.
//! Not here: drawing and sealing secrets (the edge does it, for what is drawn here follows from the core's seed, and no core has a
//! sealing key).

pub(crate) mod directory;
pub(crate) mod entries;

use crate::accounts::directory::{all_well, AccountRow, AccountState, KeptSecret, KeyRow, ACCOUNT_PREFIX};
use crate::clusters;
use crate::request::{done, Terms};
use crate::state::PlanContext;
use crate::work::{planner, Work};
use crate::Offered;
use base_types::action::Failure;
use base_types::s3::{
    AccessKey, AccessKeys, Accounts, CreateAccessKey, CreateAccount, ListAccounts, S3Action, S3Answer, S3ErrorCode,
    SealAccessKey,
};
use base_types::Refusal;
use bytes::Bytes;
use core_flow::rounds::{one, only};
use core_flow::{Call, CallResult, Step};

/// The most accounts of one answer.
const ACCOUNTS_PAGE_MAX: u32 = 1_000;
/// The most access keys of an account.
const KEYS_MAX: usize = 1_000;
/// Keys removed in one round when an account goes.
const KEYS_AT_A_TIME: u32 = 100;
/// Characters of a drawn access key behind its mark.
const DRAWN_KEY_CHARACTERS: usize = 16;
/// How long access keys and secrets are.
const KEY_BYTES: core::ops::RangeInclusive<usize> = 3..=128;
const SECRET_BYTES: core::ops::RangeInclusive<usize> = 8..=128;

/// The planner of a call, if it is one of these.
pub(crate) fn planner_for(call: S3Action, _terms: &Terms) -> Offered {
    Ok(match call {
        S3Action::CreateAccount(call) => planner("CreateAccount", Create { call: *call, stage: CreateStage::Look }),
        S3Action::DeleteAccount(call) => planner("DeleteAccount", Delete::new(call.account)),
        S3Action::ListAccounts(call) => planner("ListAccounts", List { call: *call }),
        S3Action::CreateAccessKey(call) => {
            planner("CreateAccessKey", CreateKey { call: *call, stage: KeyStage::Look, tried: None, expected: None })
        }
        S3Action::SealAccessKey(call) => planner("SealAccessKey", SealKey { call: *call, stage: SealStage::Look }),
        S3Action::GetAccessKey(call) => planner("GetAccessKey", GetKey { access_key: call.access_key, found: None }),
        S3Action::DeleteAccessKey(call) => planner(
            "DeleteAccessKey",
            DeleteKey { access_key: call.access_key, stage: DeleteKeyStage::Look, account: None },
        ),
        S3Action::ListAccessKeys(call) => planner("ListAccessKeys", ListKeys { account: call.account, listed: None }),
        other => return Err(other),
    })
}

enum CreateStage {
    Look,
    Clusters,
    Change,
}

struct Create {
    call: CreateAccount,
    stage: CreateStage,
}

impl Create {
    fn row(&self, context: &mut PlanContext<'_>, before: Option<AccountRow>) -> AccountRow {
        let made = AccountRow {
            display_name: String::new(),
            life: context.random.next(),
            state: AccountState::Active,
            created_ms: context.unix_ms,
            buckets_max: None,
        };
        let before = before.unwrap_or(made);
        let display_name = match &self.call.display_name[..] {
            "" => before.display_name.clone(),
            name => name.to_string(),
        };
        AccountRow { display_name, buckets_max: self.call.buckets_max.or(before.buckets_max), ..before }
    }

    fn change(&mut self, expected: Option<Bytes>, row: &AccountRow) -> Result<Step, Failure> {
        self.stage = CreateStage::Change;
        let key = directory::account_key(&self.call.account);
        Ok(one(directory::change(key, expected, Some(directory::body(row)?))?))
    }
}

impl Work for Create {
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            directory::check_account(&self.call.account)?;
            return Ok(one(directory::get(directory::account_key(&self.call.account))?));
        }
        match self.stage {
            CreateStage::Look => match directory::got::<AccountRow>(only(answers))? {
                None => {
                    self.stage = CreateStage::Clusters;
                    let rule = context.state.config.rule.clone();
                    let own =
                        Call::CreateCluster { cluster: clusters::account(&self.call.account)?, rule: rule.clone() };
                    Ok(Step::Calls(vec![directory::make(&rule)?, own]))
                }
                Some((row, _)) if row.state == AccountState::Deleting => Err(going(&self.call.account).into()),
                Some((row, _)) if row.state == AccountState::Gone => Err(given_before(&self.call.account).into()),
                Some((before, body)) => {
                    let row = self.row(context, Some(before.clone()));
                    if row == before {
                        return Ok(done(S3Answer::Done, None));
                    }
                    self.change(Some(body), &row)
                }
            },
            CreateStage::Clusters => {
                all_well(answers)?;
                let row = self.row(context, None);
                self.change(None, &row)
            }
            CreateStage::Change => match directory::changed(only(answers))? {
                true => Ok(done(S3Answer::Done, None)),
                false => {
                    self.begin_again();
                    self.next(context, Vec::new())
                }
            },
        }
    }

    fn begin_again(&mut self) {
        self.stage = CreateStage::Look;
    }
}

/// An account that is being deleted.
pub(crate) fn going(account: &str) -> Refusal {
    let message = format!("account '{account}' is being deleted; call DeleteAccount again to have that finished");
    S3ErrorCode::OperationAborted.because(message)
}

/// An account of this name was deleted.
fn given_before(account: &str) -> Refusal {
    S3ErrorCode::AccountProblem.because(format!(
        "an account '{account}' was deleted, and its name is not given again: policies and ACLs may still name it. \
         Choose another name"
    ))
}

#[derive(Clone, Copy)]
enum DeleteStage {
    Look,
    /// Buckets are looked for; the row was `Deleting` before.
    Buckets {
        marked: bool,
    },
    Mark,
    Unmark,
    Keys,
    KeyRows,
    KeysGone,
    Remove,
}

/// Removes an account that owns no bucket.
struct Delete {
    account: String,
    stage: DeleteStage,
    /// The life that goes, and its row's bytes.
    life: Option<(AccountRow, Bytes)>,
    /// The access keys of a round.
    names: Vec<String>,
}

impl Delete {
    fn new(account: String) -> Delete {
        Delete { account, stage: DeleteStage::Look, life: None, names: Vec::new() }
    }

    fn key(&self) -> Bytes {
        directory::account_key(&self.account)
    }

    fn looked(&mut self, result: CallResult) -> Result<Step, Failure> {
        let found = directory::account(result)?;
        let went = self.life.as_ref().map(|(row, _)| row.life);
        let (row, body) = match found {
            // Gone since we began: that is what was wanted.
            None if went.is_some() => return Ok(done(S3Answer::Done, None)),
            Some((row, _)) if went.is_some_and(|life| life != row.life) => return Ok(done(S3Answer::Done, None)),
            None => return Err(directory::no_such_account(&self.account).into()),
            Some(found) => found,
        };
        let marked = row.state == AccountState::Deleting;
        self.life = Some((row, body));
        self.buckets(marked)
    }

    fn buckets(&mut self, marked: bool) -> Result<Step, Failure> {
        self.stage = DeleteStage::Buckets { marked };
        Ok(one(entries::list(&self.account, "", None, 1)?))
    }

    /// The row becomes another.
    fn change(&mut self, stage: DeleteStage, after: AccountState) -> Result<Step, Failure> {
        let Some((row, body)) = self.life.clone() else { return Err(directory::no_such_account(&self.account).into()) };
        self.stage = stage;
        let row = directory::body(&AccountRow { state: after, ..row })?;
        Ok(one(directory::change(self.key(), Some(body), Some(row))?))
    }

    fn marked(&mut self, context: &mut PlanContext<'_>, result: CallResult) -> Result<Step, Failure> {
        if !directory::changed(result)? {
            self.begin_again();
            return self.next(context, Vec::new());
        }
        if let Some((row, body)) = &mut self.life {
            row.state = AccountState::Deleting;
            *body = directory::body(row)?;
        }
        self.buckets(true)
    }

    fn keys(&mut self) -> Result<Step, Failure> {
        self.stage = DeleteStage::Keys;
        Ok(one(directory::scan(&directory::key_of_prefix(&self.account), KEYS_AT_A_TIME)?))
    }

    fn key_rows(&mut self, result: CallResult) -> Result<Step, Failure> {
        let (listed, _) = directory::scanned(result)?;
        if listed.is_empty() {
            return self.change(DeleteStage::Remove, AccountState::Gone);
        }
        let prefix = directory::key_of_prefix(&self.account);
        self.names = listed.iter().filter_map(|(place, _)| access_key_in(place, &prefix)).collect();
        self.stage = DeleteStage::KeyRows;
        Ok(Step::Calls(key_reads(&self.names)?))
    }

    /// The rows of keys that are ours go, and once they are gone their places in the list.
    fn remove_keys(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let (mut calls, mut places) = (Vec::new(), Vec::new());
        for (name, answer) in self.names.iter().zip(answers) {
            match directory::got::<KeyRow>(answer)? {
                Some((row, body)) if row.account == self.account => {
                    calls.push(directory::change(directory::key_key(name), Some(body), None)?);
                }
                _ => places.push(directory::key_of_key(&self.account, name)),
            }
        }
        if !places.is_empty() {
            calls.push(directory::remove(places)?);
        }
        self.stage = DeleteStage::KeysGone;
        Ok(Step::Calls(calls))
    }
}

/// Asks for the rows of access keys.
fn key_reads(names: &[String]) -> Result<Vec<Call>, Refusal> {
    names.iter().map(|name| directory::get(directory::key_key(name))).collect()
}

impl Work for Delete {
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            directory::check_account(&self.account)?;
            return Ok(one(directory::get(self.key())?));
        }
        match self.stage {
            DeleteStage::Look => self.looked(only(answers)),
            DeleteStage::Buckets { marked } => {
                let (found, _) = entries::listed(only(answers))?;
                match (found.is_empty(), marked) {
                    (true, false) => self.change(DeleteStage::Mark, AccountState::Deleting),
                    (true, true) => self.keys(),
                    (false, true) => self.change(DeleteStage::Unmark, AccountState::Active),
                    (false, false) => Err(owns_buckets(&self.account).into()),
                }
            }
            DeleteStage::Mark => self.marked(context, only(answers)),
            DeleteStage::Unmark => {
                directory::changed(only(answers))?;
                Err(owns_buckets(&self.account).into())
            }
            DeleteStage::Keys => self.key_rows(only(answers)),
            DeleteStage::KeyRows => self.remove_keys(answers),
            DeleteStage::KeysGone => {
                answers.into_iter().try_for_each(|answer| directory::changed(answer).map(drop))?;
                self.keys()
            }
            DeleteStage::Remove => match directory::changed(only(answers))? {
                true => Ok(done(S3Answer::Done, None)),
                false => {
                    self.begin_again();
                    self.next(context, Vec::new())
                }
            },
        }
    }

    fn begin_again(&mut self) {
        self.stage = DeleteStage::Look;
    }
}

fn owns_buckets(account: &str) -> Refusal {
    S3ErrorCode::AccountProblem.because(format!("account '{account}' owns buckets; delete them first"))
}

/// The access key that a place in an account's list names.
fn access_key_in(place: &[u8], prefix: &str) -> Option<String> {
    Some(std::str::from_utf8(place).ok()?.strip_prefix(prefix)?.to_string())
}

/// Lists accounts.
struct List {
    call: ListAccounts,
}

impl Work for List {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            let most = self.call.max_accounts.unwrap_or(ACCOUNTS_PAGE_MAX);
            if most == 0 {
                return Err(S3ErrorCode::InvalidArgument.because("max_accounts is 0; ask for at least one").into());
            }
            let behind = self.call.continuation_token.as_deref().map(directory::account_key);
            let call = directory::scan_behind(ACCOUNT_PREFIX, behind.as_ref(), most.min(ACCOUNTS_PAGE_MAX));
            return Ok(one(call?));
        }
        let (rows, more) = directory::scanned(only(answers))?;
        let mut accounts = Vec::with_capacity(rows.len());
        let mut last = None;
        for (key, body) in rows {
            let name = String::from_utf8_lossy(&key).into_owned();
            let name = name.strip_prefix(ACCOUNT_PREFIX).unwrap_or(&name).to_string();
            let row: AccountRow = directory::row(&body)?;
            if row.state != AccountState::Gone {
                accounts.push(row.owner(&name));
            }
            last = Some(name);
        }
        // A page may have fewer than were asked for, or none: those that are gone have rows, too.
        let continuation_token = last.filter(|_| more);
        Ok(done(Accounts { accounts, continuation_token }, None))
    }

    fn begin_again(&mut self) {}
}

#[derive(Clone, Copy)]
enum KeyStage {
    Look,
    Place,
    Put,
}

struct CreateKey {
    call: CreateAccessKey,
    stage: KeyStage,
    /// What is put, once it is drawn.
    tried: Option<(AccessKey, KeyRow)>,
    /// A row in its place that counts for nothing: of an earlier life of the account.
    expected: Option<Bytes>,
}

impl CreateKey {
    fn draw(&self, context: &mut PlanContext<'_>) -> Result<AccessKey, Refusal> {
        const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
        let mut drawn = |_| char::from(ALPHABET[context.random.below(32) as usize]);
        let access_key = match &self.call.access_key {
            Some(given) => given.clone(),
            None => format!("HIVE{}", (0..DRAWN_KEY_CHARACTERS).map(&mut drawn).collect::<String>()),
        };
        let Some(secret_key) = self.call.secret_key.clone() else {
            return Err(S3ErrorCode::InvalidArgument.because("no secret key was given, nor drawn by the node's edge"));
        };
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !KEY_BYTES.contains(&access_key.len()) || !access_key.bytes().all(legal) {
            let (least, most) = KEY_BYTES.into_inner();
            let message = format!("an access key has {least} to {most} letters, digits, '.', '_' or '-'");
            return Err(S3ErrorCode::InvalidArgument.because(message));
        }
        if !SECRET_BYTES.contains(&secret_key.len()) || !secret_key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let (least, most) = SECRET_BYTES.into_inner();
            let message = format!("a secret key has {least} to {most} printable ASCII characters");
            return Err(S3ErrorCode::InvalidArgument.because(message));
        }
        let account = self.call.account.clone();
        Ok(AccessKey { access_key, secret_key, account, ..AccessKey::default() })
    }

    fn looked(&mut self, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let [account, there, keys] = three(answers);
        let Some((account, _)) = directory::account(account)? else {
            return Err(directory::no_such_account(&self.call.account).into());
        };
        if account.state == AccountState::Deleting {
            return Err(going(&self.call.account).into());
        }
        let Some((key, row)) = &mut self.tried else {
            return Err(directory::no_such_account(&self.call.account).into());
        };
        key.display_name = account.owner(&self.call.account).display_name;
        row.life = account.life;
        let there = directory::got::<KeyRow>(there)?;
        match there {
            // Put by this call before, or by one that asked for the very same.
            Some((found, _)) if found == *row => return Ok(done(key.clone(), None)),
            // The very same, kept before the world had a sealing key: `SealAccessKey` seals it.
            Some((found, _))
                if (&found.account, found.life) == (&row.account, row.life) && found.is_plain(&key.secret_key) =>
            {
                return Ok(done(key.clone(), None));
            }
            Some((found, body)) if found.account == row.account && found.life != row.life => self.expected = Some(body),
            Some(_) if self.call.access_key.is_none() => {
                self.tried = None;
                return Err(S3ErrorCode::ServiceUnavailable.because("the access key drawn is taken").into());
            }
            Some(_) => {
                let message = format!("access key '{}' exists already; choose another", key.access_key);
                return Err(S3ErrorCode::InvalidArgument.because(message).into());
            }
            None => self.expected = None,
        }
        let (listed, _) = directory::scanned(keys)?;
        if listed.len() >= KEYS_MAX {
            let message = format!("account '{}' has {KEYS_MAX} access keys; delete one first", self.call.account);
            return Err(S3ErrorCode::InvalidRequest.because(message).into());
        }
        self.stage = KeyStage::Place;
        let place = directory::key_of_key(&self.call.account, &key.access_key);
        Ok(one(directory::put(place, Bytes::new())?))
    }
}

/// A key of this account would count whatever the roles of the user are whose account it is, and after the user's end.
fn refuse_users(account: &str) -> Result<(), Refusal> {
    if !base_access::is_account_of_user(account) {
        return Ok(());
    }
    let message = format!("account '{account}' is a user's: make its keys with `hive key create` (CreateS3Key)");
    Err(S3ErrorCode::InvalidRequest.because(message))
}

/// The answers of a round of three.
fn three(answers: Vec<CallResult>) -> [CallResult; 3] {
    let mut answers = answers.into_iter();
    let mut next = || only(answers.next().into_iter().collect());
    [next(), next(), next()]
}

impl Work for CreateKey {
    fn next(&mut self, context: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            directory::check_account(&self.call.account)?;
            refuse_users(&self.call.account)?;
            if self.tried.is_none() {
                let key = self.draw(context)?;
                let (account, secret_key) = (key.account.clone(), key.secret_key.clone());
                let secret = self.call.sealed.clone().map_or(KeptSecret::Plain { secret_key }, KeptSecret::Sealed);
                self.tried = Some((key, KeyRow { account, life: 0, secret }));
            }
        }
        let Some((key, row)) = &self.tried else { return Err(directory::no_such_account(&self.call.account).into()) };
        let at = directory::key_key(&key.access_key);
        if answers.is_empty() {
            return Ok(Step::Calls(vec![
                directory::get(directory::account_key(&self.call.account))?,
                directory::get(at)?,
                directory::scan(&directory::key_of_prefix(&self.call.account), KEYS_MAX as u32)?,
            ]));
        }
        match self.stage {
            KeyStage::Look => self.looked(answers),
            KeyStage::Place => {
                all_well(answers)?;
                self.stage = KeyStage::Put;
                Ok(one(directory::change(at, self.expected.clone(), Some(directory::body(row)?))?))
            }
            KeyStage::Put => match directory::changed(only(answers))? {
                true => Ok(done(key.clone(), None)),
                false => {
                    self.begin_again();
                    self.next(context, Vec::new())
                }
            },
        }
    }

    fn begin_again(&mut self) {
        self.stage = KeyStage::Look;
    }
}

/// Reads a key, then whether its account is still the one it was made for.
struct GetKey {
    access_key: String,
    found: Option<KeyRow>,
}

fn no_such_key(access_key: &str) -> Failure {
    let message = format!("access key '{}' does not exist", access_key.escape_debug());
    S3ErrorCode::NoSuchAccessKey.because(message).into()
}

impl Work for GetKey {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        if answers.is_empty() {
            return Ok(one(directory::get(directory::key_key(&self.access_key))?));
        }
        let gone = || no_such_key(&self.access_key);
        let Some(key) = self.found.take() else {
            let (row, _) = directory::got::<KeyRow>(only(answers))?.ok_or_else(gone)?;
            let account = directory::account_key(&row.account);
            self.found = Some(row);
            return Ok(one(directory::get(account)?));
        };
        let found = directory::account(only(answers))?;
        let (account, _) = found.filter(|(account, _)| account.life == key.life).ok_or_else(gone)?;
        let display_name = account.owner(&key.account).display_name;
        let access_key = self.access_key.clone();
        Ok(done(key.shown(access_key, display_name), None))
    }

    fn begin_again(&mut self) {
        self.found = None;
    }
}

#[derive(Clone, Copy)]
enum SealStage {
    Look,
    Put,
}

/// Puts the sealed secret in the place of the one that the edge read, if the row still has that one.
struct SealKey {
    call: SealAccessKey,
    stage: SealStage,
}

impl SealKey {
    fn looked(&mut self, answer: CallResult) -> Result<Step, Failure> {
        let SealAccessKey { access_key, read, sealed } = &self.call;
        let (Some(read), Some(sealed)) = (read, sealed) else {
            let message = "no sealed secret was given by the node's edge";
            return Err(S3ErrorCode::InvalidArgument.because(message).into());
        };
        let (row, body) = directory::got::<KeyRow>(answer)?.ok_or_else(|| no_such_key(access_key))?;
        let after = KeyRow { secret: KeptSecret::Sealed(sealed.clone()), ..row.clone() };
        if row == after {
            return Ok(done(S3Answer::Done, None));
        }
        let now = row.shown(access_key.clone(), read.display_name.clone());
        if now != *read {
            let message = format!("access key '{access_key}' was changed meanwhile; retry");
            return Err(S3ErrorCode::ServiceUnavailable.because(message).into());
        }
        self.stage = SealStage::Put;
        Ok(one(directory::change(directory::key_key(access_key), Some(body), Some(directory::body(&after)?))?))
    }
}

impl Work for SealKey {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let key = directory::key_key(&self.call.access_key);
        if answers.is_empty() {
            return Ok(one(directory::get(key)?));
        }
        match self.stage {
            SealStage::Look => self.looked(only(answers)),
            SealStage::Put => match directory::changed(only(answers))? {
                true => Ok(done(S3Answer::Done, None)),
                false => {
                    self.begin_again();
                    Ok(one(directory::get(key)?))
                }
            },
        }
    }

    fn begin_again(&mut self) {
        self.stage = SealStage::Look;
    }
}

#[derive(Clone, Copy)]
enum DeleteKeyStage {
    Look,
    Row,
    Place,
}

struct DeleteKey {
    access_key: String,
    stage: DeleteKeyStage,
    /// Whose it was; its row is gone, or may be.
    account: Option<String>,
}

impl Work for DeleteKey {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let key = directory::key_key(&self.access_key);
        if answers.is_empty() {
            return Ok(one(directory::get(key)?));
        }
        match self.stage {
            DeleteKeyStage::Look => match (directory::got::<KeyRow>(only(answers))?, &self.account) {
                (Some((row, body)), _) => {
                    (self.stage, self.account) = (DeleteKeyStage::Row, Some(row.account));
                    Ok(one(directory::change(key, Some(body), None)?))
                }
                (None, Some(account)) => {
                    self.stage = DeleteKeyStage::Place;
                    Ok(one(directory::remove(vec![directory::key_of_key(account, &self.access_key)])?))
                }
                (None, None) => Err(no_such_key(&self.access_key)),
            },
            // Gone, or another: whichever, it is looked for again.
            DeleteKeyStage::Row => {
                directory::changed(only(answers))?;
                self.begin_again();
                Ok(one(directory::get(key)?))
            }
            DeleteKeyStage::Place => {
                all_well(answers)?;
                Ok(done(S3Answer::Done, None))
            }
        }
    }

    fn begin_again(&mut self) {
        self.stage = DeleteKeyStage::Look;
    }
}

/// Reads an account's list, and each key named in it.
struct ListKeys {
    account: String,
    listed: Option<(u64, Vec<String>)>,
}

impl Work for ListKeys {
    fn next(&mut self, _: &mut PlanContext<'_>, answers: Vec<CallResult>) -> Result<Step, Failure> {
        let prefix = directory::key_of_prefix(&self.account);
        if answers.is_empty() {
            directory::check_account(&self.account)?;
            let account = directory::get(directory::account_key(&self.account))?;
            return Ok(Step::Calls(vec![account, directory::scan(&prefix, KEYS_MAX as u32)?]));
        }
        if let Some((life, names)) = self.listed.take() {
            let mut access_keys = Vec::new();
            for (name, answer) in names.into_iter().zip(answers) {
                let own = |row: &KeyRow| row.account == self.account && row.life == life;
                if directory::got::<KeyRow>(answer)?.is_some_and(|(row, _)| own(&row)) {
                    access_keys.push(name);
                }
            }
            return Ok(done(AccessKeys { access_keys }, None));
        }
        let mut answers = answers.into_iter();
        let account = directory::account(only(answers.next().into_iter().collect()))?;
        let (account, _) = account.ok_or_else(|| directory::no_such_account(&self.account))?;
        let (places, _) = directory::scanned(only(answers.next().into_iter().collect()))?;
        let names: Vec<String> = places.iter().filter_map(|(place, _)| access_key_in(place, &prefix)).collect();
        if names.is_empty() {
            return Ok(done(AccessKeys::default(), None));
        }
        let calls = key_reads(&names)?;
        self.listed = Some((account.life, names));
        Ok(Step::Calls(calls))
    }

    fn begin_again(&mut self) {
        self.listed = None;
    }
}
