//! The sessions of one server, found again by whatever a client sends.
//!
//! A session belongs to the process, not to a connection or a handler. Clients up to 2025-11-25 name it
//! by the id they were given. Clients of 2026-07-28 have no id: they are told apart by who they say they
//! are ([`Key::Client`]), so that a file read over one connection may be edited over the next.

use crate::http::auth::Principal;
use serde_json::Value;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use tools::{Host, Session, SessionGuard};

/// How long a client that lost its stream may take to come back for the answer before its calls are
/// cancelled. Longer than the retry interval that streams announce.
const RESUME_GRACE: Duration = Duration::from_secs(3);

/// How long a cancel may be on its way: a client whose last call ended less long ago may still mean that one.
const LATE_CANCEL: Duration = Duration::from_secs(10);

/// What a session is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The id the client was given.
    Id(String),
    /// The id in the address that a legacy stream was told to post to.
    Stream(String),
    /// A client without an id: whatever it says of itself on every request. Two clients that say the same
    /// share a session unless their addresses carry different `?session=` names.
    Client {
        /// Whose token.
        principal: Principal,
        /// Where from.
        from: Option<IpAddr>,
        /// Program and version.
        program: String,
        /// The `session` parameter of the address.
        label: String,
    },
}

/// No further session fits.
#[derive(Debug, thiserror::Error)]
#[error("too many sessions (limit {limit}); end one, or raise the limit with --max-sessions")]
pub(crate) struct Full {
    limit: usize,
}

/// A session that counts against the limit but has no key yet.
pub(crate) struct Opened {
    guard: SessionGuard,
    principal: Principal,
    _place: Place,
}

/// One of the places that the limit allows.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(taken: &Arc<AtomicUsize>, limit: usize) -> Result<Self, Full> {
        let more = |n: usize| (n < limit).then_some(n + 1);
        match taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Self(Arc::clone(taken))),
            Err(_) => Err(Full { limit }),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Opened {
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.guard)
    }
}

struct Entry {
    opened: Opened,
    /// Requests and streams open right now.
    users: usize,
    last_used: Instant,
    /// Streams open right now through which lost answers can still be fetched.
    resumers: usize,
    /// Calls whose own stream is gone.
    orphans: Vec<CancellationToken>,
    /// Calls of a client without a session on the wire, which only the id of their request names.
    calls: Vec<Running>,
    last_call: u64,
}

/// A call that can be cancelled by the id of its request.
struct Running {
    number: u64,
    id: Value,
    cancel: CancellationToken,
}

impl Entry {
    fn new(opened: Opened) -> Self {
        Self {
            opened,
            users: 0,
            last_used: Instant::now(),
            resumers: 0,
            orphans: Vec::new(),
            calls: Vec::new(),
            last_call: 0,
        }
    }
}

/// Every session there is.
pub(crate) struct Directory {
    host: Arc<Host>,
    taken: Arc<AtomicUsize>,
    entries: Mutex<HashMap<Key, Entry>>,
}

/// Keeps a session from being idle while it lives.
pub(crate) struct InUse {
    directory: Arc<Directory>,
    key: Key,
    session: Arc<Session>,
    resuming: bool,
}

/// What a key led to.
pub(crate) enum Found {
    /// The session.
    Session(InUse),
    /// Nothing, or something that belongs to somebody else: the difference is nobody's business.
    Nothing,
}

impl Directory {
    pub(crate) fn new(host: Arc<Host>) -> Arc<Self> {
        Arc::new(Self { host, taken: Arc::default(), entries: Mutex::default() })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn full(&self) -> Option<Full> {
        let limit = self.host.limits().sessions;
        (self.taken.load(Ordering::Acquire) >= limit).then_some(Full { limit })
    }

    /// A new session of `principal`.
    pub(crate) fn open(&self, principal: &Principal) -> Result<Opened, Full> {
        let place = Place::take(&self.taken, self.host.limits().sessions)?;
        let id = uuid::Uuid::new_v4().to_string();
        let guard = self.host.session_of(id, principal.access(), Some(&principal.name));
        tracing::info!(session = guard.id, principal = &*principal.name, "session opened");
        Ok(Opened { guard, principal: principal.clone(), _place: place })
    }

    /// Keeps a session under a key.
    pub(crate) fn keep(&self, key: Key, opened: Opened) {
        self.entries().insert(key, Entry::new(opened));
    }

    /// The session under `key`, when it is the principal's own.
    pub(crate) fn enter(self: &Arc<Self>, key: &Key, principal: &Principal, resuming: bool) -> Found {
        let mut entries = self.entries();
        match entries.get_mut(key) {
            Some(entry) if entry.opened.principal == *principal => {
                entry.users += 1;
                entry.resumers += usize::from(resuming);
                let session = entry.opened.session();
                Found::Session(InUse { directory: Arc::clone(self), key: key.clone(), session, resuming })
            }
            _ => Found::Nothing,
        }
    }

    /// Keeps the session under `key` from being idle, for somebody who has it already.
    pub(crate) fn stay(self: &Arc<Self>, key: Key) -> Option<InUse> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&key)?;
        entry.users += 1;
        let session = entry.opened.session();
        Some(InUse { directory: Arc::clone(self), key, session, resuming: false })
    }

    /// Cancels the call whose request has this id, when only one can be meant: ids of different clients are alike,
    /// so there must be one client that is `meant` and one such call of it.
    pub(crate) fn cancel(&self, meant: impl Fn(&Key) -> bool, id: &Value) -> bool {
        let cancel = {
            let entries = self.entries();
            let recent = |entry: &Entry| entry.users > 0 || entry.last_used.elapsed() < LATE_CANCEL;
            let mut clients = entries.iter().filter(|(key, entry)| meant(key) && recent(entry));
            let (Some((_, client)), None) = (clients.next(), clients.next()) else { return false };
            let mut calls = client.calls.iter().filter(|call| call.id == *id);
            let (Some(call), None) = (calls.next(), calls.next()) else { return false };
            call.cancel.clone()
        };
        cancel.cancel();
        true
    }

    /// The session under `key`, made when there is none.
    pub(crate) fn enter_or_open(self: &Arc<Self>, key: &Key, principal: &Principal) -> Result<InUse, Full> {
        loop {
            if let Found::Session(found) = self.enter(key, principal, false) {
                return Ok(found);
            }
            let opened = self.open(principal)?;
            // Another request of the same client may have been quicker: the first one stays.
            self.entries().entry(key.clone()).or_insert_with(|| Entry::new(opened));
        }
    }

    /// Ends a session and everything it started.
    pub(crate) fn close(&self, key: &Key) {
        let entry = self.entries().remove(key);
        if let Some(entry) = entry {
            tracing::info!(session = entry.opened.guard.id, "session closed");
        }
    }

    /// Ends the sessions that nobody has used for `idle`; says which.
    pub(crate) fn reap(&self, idle: Duration) -> Vec<Key> {
        let gone: Vec<(Key, Entry)> = self
            .entries()
            .extract_if(|_, entry| entry.users == 0 && entry.last_used.elapsed() >= idle)
            .collect();
        gone.into_iter()
            .map(|(key, entry)| {
                tracing::info!(session = entry.opened.guard.id, "idle session closed");
                key
            })
            .collect()
    }
}

impl InUse {
    pub(crate) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session)
    }

    /// A call that `cancel` ends, known by the id of its request as long as the result lives.
    pub(crate) fn calling(&self, id: Value, cancel: CancellationToken) -> Calling<'_> {
        let mut number = 0;
        if let Some(entry) = self.directory.entries().get_mut(&self.key) {
            entry.last_call += 1;
            number = entry.last_call;
            entry.calls.push(Running { number, id, cancel });
        }
        Calling { in_use: self, number }
    }

    /// The call behind `cancel` lost its stream. It is cancelled unless the client comes back soon.
    pub(crate) fn orphan(&self, cancel: CancellationToken) {
        let mut entries = self.directory.entries();
        match entries.get_mut(&self.key) {
            Some(entry) => entry.orphans.push(cancel),
            None => cancel.cancel(),
        }
        drop(entries);
        self.cancel_orphans_later();
    }

    fn cancel_orphans_later(&self) {
        let (directory, key) = (Arc::clone(&self.directory), self.key.clone());
        tokio::spawn(async move {
            tokio::time::sleep(RESUME_GRACE).await;
            let orphans = match directory.entries().get_mut(&key) {
                Some(entry) if entry.resumers == 0 => std::mem::take(&mut entry.orphans),
                _ => Vec::new(),
            };
            for orphan in orphans {
                orphan.cancel();
            }
        });
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let orphaned = {
            let mut entries = self.directory.entries();
            let Some(entry) = entries.get_mut(&self.key) else { return };
            entry.users = entry.users.saturating_sub(1);
            entry.last_used = Instant::now();
            entry.resumers = entry.resumers.saturating_sub(usize::from(self.resuming));
            self.resuming && !entry.orphans.is_empty()
        };
        if orphaned {
            self.cancel_orphans_later();
        }
    }
}

/// A call under way.
pub(crate) struct Calling<'a> {
    in_use: &'a InUse,
    number: u64,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.in_use.directory.entries().get_mut(&self.in_use.key) {
            entry.calls.retain(|call| call.number != self.number);
        }
    }
}
