//! A service, as its callers use it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tollgate_tls::TlsClientFiles;

use crate::answer::Answer;
use crate::connect::{Connector, MAX_WAITING, Protocol};
use crate::error::{AddressError, RemoteError};
use crate::grpc::Channel;
use crate::http::alone::Alone;
use crate::http::batch::{self, Claim, QueuedQuestion};
use crate::leasing::Leasing;
use crate::question::Question;

const DEADLINE: Duration = Duration::from_millis(100);

/// A Tollgate service. Clones share its connections; dropping the last clone closes them.
#[derive(Clone, Debug)]
pub struct Service {
    transport: Transport,
    deadline: Duration,
    leases: bool,
}

#[derive(Clone, Debug)]
enum Transport {
    Http { asks: mpsc::Sender<QueuedQuestion>, alone: Arc<Alone> },
    Grpc(Arc<Leasing>),
}

impl Service {
    /// The service at this address: `grpc://` or `http://`, or encrypted `grpcs://` or `https://`, and the
    /// host and port where the service has that interface. An encrypted connection trusts the authorities of
    /// the system. Connects with the first call, and again whenever the connection is lost.
    ///
    /// # Errors
    /// [`AddressError`]: the address is invalid, or there is no runtime.
    pub fn at(address: &str) -> Result<Self, AddressError> {
        Self::with_tls(address, TlsClientFiles::default())
    }

    /// The same at an encrypted address, with these files: authorities to trust, and a certificate for a
    /// service that asks for one. They are read again for each new connection.
    ///
    /// # Errors
    /// As [`Service::at`]; also for a file that cannot be used, and an address that is not encrypted.
    pub fn with_tls(address: &str, files: TlsClientFiles) -> Result<Self, AddressError> {
        let connector = Connector::read(address, files)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| AddressError::NoRuntime)?;
        let transport = match connector.protocol {
            Protocol::Grpc => {
                let channel = Channel::new(connector, runtime.clone(), MAX_WAITING);
                Transport::Grpc(Arc::new(Leasing::new(Arc::new(channel), runtime)))
            }
            Protocol::Http => {
                let (asks, asked) = mpsc::channel(MAX_WAITING);
                let connector = Arc::new(connector);
                runtime.spawn(batch::drive(asked, Arc::clone(&connector)));
                Transport::Http { asks, alone: Arc::new(Alone::new(connector, runtime)) }
            }
        };
        Ok(Self { transport, deadline: DEADLINE, leases: false })
    }

    /// Sets the deadline of a call; 100 ms if nothing is set. Calls that wait have a timeout of their own.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Takes permits ahead and hands them out in this program, where the rule allows it: over gRPC, from a
    /// token bucket with `sharing: leased`, while more than half of its burst is there.
    ///
    /// Never more is admitted than without leases. Leased permits stop being good at the rate of the limit,
    /// and count as used then: so leases pay off for a few busy programs on limits that are far from reached,
    /// and other programs can count on half of the burst. Answers from a lease have [`DecidedBy::Lease`].
    ///
    /// [`DecidedBy::Lease`]: crate::DecidedBy::Lease
    #[must_use]
    pub const fn with_leases(mut self) -> Self {
        self.leases = true;
        self
    }

    /// Deadline of a call that sets none.
    pub(crate) const fn usual(&self) -> Duration {
        self.deadline
    }

    /// Number of calls that wait: over HTTP to be sent, over gRPC for their answers.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &self.transport {
            Transport::Http { asks, .. } => asks.max_capacity() - asks.capacity(),
            Transport::Grpc(leasing) => leasing.channel.waiting(),
        }
    }

    /// Asks for `hits` permits of a descriptor; 0 takes nothing, and shows the permits left.
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
        let question = Question { domain, entries, hits, is_consumed: false, max_wait: Duration::ZERO };
        self.ask_within(&question, self.deadline).await
    }

    /// Counts `hits` of a descriptor that are used already, in full, whether they are there or not: for
    /// requests whose cost is known only afterwards. No limit denies it; the answer says what is left or
    /// [owed](Answer::owed).
    ///
    /// # Errors
    /// [`RemoteError`] says what became of the hits. They may be reported again if they were not counted.
    pub async fn consume(
        &self,
        domain: &str,
        entries: &[(&str, &str)],
        hits: u64,
    ) -> Result<Answer, RemoteError> {
        let question = Question { domain, entries, hits, is_consumed: true, max_wait: Duration::ZERO };
        self.ask_within(&question, self.deadline).await
    }

    /// Asks within `deadline`. Without a wait in the question, the answer is the present state of the
    /// counters.
    pub(crate) async fn ask_within(
        &self,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Result<Answer, RemoteError> {
        match &self.transport {
            Transport::Grpc(leasing) if self.leases && !question.is_consumed => {
                leasing.ask(question, deadline).await
            }
            Transport::Grpc(leasing) => {
                leasing.channel.check(question, deadline).await.map(|(answer, _)| answer)
            }
            Transport::Http { asks, alone } => {
                if !question.max_wait.is_zero()
                    && let Some(answer) = alone.ask(question, deadline).await
                {
                    return answer;
                }
                let json = Question { max_wait: Duration::ZERO, ..*question }.json()?;
                self.ask_together(asks, json, deadline.min(self.deadline)).await
            }
        }
    }

    /// Asks with the next batch.
    async fn ask_together(
        &self,
        asks: &mpsc::Sender<QueuedQuestion>,
        json: Vec<u8>,
        deadline: Duration,
    ) -> Result<Answer, RemoteError> {
        let (answer, answered) = oneshot::channel();
        let claim = Arc::new(Claim::default());
        // Gives the question up when it is dropped.
        let caller = CallerGuard(Arc::clone(&claim));
        let ends = tokio::time::Instant::now() + deadline;
        if asks.try_send(QueuedQuestion { json, claim, ends, answer }).is_err() {
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

struct CallerGuard(Arc<Claim>);

impl Drop for CallerGuard {
    fn drop(&mut self) {
        self.0.give_up();
    }
}
