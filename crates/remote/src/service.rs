//! A service, as its callers hold it.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use crate::answer::Answer;
use crate::batch::{self, Ask, Claim};
use crate::error::{AddressError, RemoteError};

/// Calls that may wait at a time.
const MAX_WAITING: usize = 10_000;
const DEADLINE: Duration = Duration::from_millis(100);

/// A Tollgate service. Clones share one connection; the last one that is dropped closes it.
#[derive(Clone, Debug)]
pub struct Service {
    asks: mpsc::Sender<Ask>,
    deadline: Duration,
}

/// An entry of a descriptor, as `/v1/check` reads it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// A request, as `/v1/check` reads it.
#[derive(Debug, Serialize)]
struct Question<'a> {
    domain: &'a str,
    descriptors: [&'a [Entry<'a>]; 1],
    hits: u64,
}

impl Service {
    /// The service at this address, such as `http://127.0.0.1:8080`. Connects with the first call, and again
    /// whenever the connection is lost.
    ///
    /// # Errors
    /// [`AddressError`]: it is not an address, or there is no runtime.
    pub fn at(address: &str) -> Result<Self, AddressError> {
        let invalid = || AddressError::Invalid(address.to_owned());
        let uri: Uri = address.parse().map_err(|_| invalid())?;
        let is_plain = uri.scheme() == Some(&http::uri::Scheme::HTTP) && matches!(uri.path(), "" | "/");
        let authority = uri.authority().filter(|_| is_plain).ok_or_else(invalid)?.clone();
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| AddressError::NoRuntime)?;
        let (asks, asked) = mpsc::channel(MAX_WAITING);
        runtime.spawn(batch::drive(asked, authority));
        Ok(Self { asks, deadline: DEADLINE })
    }

    /// How long a call may take in all; 100 ms if nothing is set.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How many calls wait to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.asks.max_capacity() - self.asks.capacity()
    }

    /// Asks for `hits` permits of a descriptor; 0 takes nothing, and shows what is left.
    ///
    /// Dropped before it is sent, the question takes nothing; afterwards its permits count as used.
    ///
    /// # Errors
    /// [`RemoteError`] says what became of the permits.
    pub async fn ask(
        &self,
        domain: &str,
        entries: &[(&str, &str)],
        hits: u64,
    ) -> Result<Answer, RemoteError> {
        self.ask_within(domain, entries, hits, self.deadline).await
    }

    /// The same with at most this deadline.
    pub(crate) async fn ask_within(
        &self,
        domain: &str,
        entries: &[(&str, &str)],
        hits: u64,
        deadline: Duration,
    ) -> Result<Answer, RemoteError> {
        let deadline = deadline.min(self.deadline);
        let entries: Vec<_> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
        let question = Question { domain, descriptors: [&entries], hits };
        let json = serde_json::to_vec(&question)
            .map_err(|error| RemoteError::Rejected { status: 400, detail: error.to_string() })?;
        let (answer, answered) = oneshot::channel();
        let claim = Arc::new(Claim::default());
        // Given up when this is dropped.
        let caller = Caller(Arc::clone(&claim));
        let ends = tokio::time::Instant::now() + deadline;
        if self.asks.try_send(Ask { json, claim, ends, answer }).is_err() {
            return Err(RemoteError::Busy { waiting: self.waiting() });
        }
        match tokio::time::timeout_at(ends, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                Err(RemoteError::Unreachable { cause: "the runtime of the connection ended".into() })
            }
            Err(_) if caller.0.give_up() => Err(RemoteError::NotSent { waited: deadline }),
            Err(_) => Err(RemoteError::NoAnswer { waited: deadline }),
        }
    }
}

struct Caller(Arc<Claim>);

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
