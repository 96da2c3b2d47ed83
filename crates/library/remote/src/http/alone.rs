//! Questions that wait at the service for their turn: each is sent alone, since questions of one request are
//! answered together, and gives up its place when its connection closes.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::Sender;
use crate::answer::{Answer, Decision};
use crate::connect::Connector;
use crate::error::RemoteError;
use crate::question::Question;

/// Most questions that wait at a time, each on a connection of its own.
const MOST: usize = 64;
/// Most connections that are kept for later questions.
const IDLE: usize = 8;

/// Connections that carry one question each.
#[derive(Debug)]
pub(crate) struct Alone {
    connector: Arc<Connector>,
    runtime: Handle,
    places: Semaphore,
    idle: Mutex<Vec<Sender>>,
}

impl Alone {
    pub(crate) fn new(connector: Arc<Connector>, runtime: Handle) -> Self {
        Self { connector, runtime, places: Semaphore::new(MOST), idle: Mutex::default() }
    }

    /// Asks within `deadline`; `None` if the most questions wait already.
    pub(crate) async fn ask(
        &self,
        question: &Question<'_>,
        deadline: Duration,
    ) -> Option<Result<Answer, RemoteError>> {
        let _place = self.places.try_acquire().ok()?;
        let mut is_sent = false;
        let asked = timeout_at(Instant::now() + deadline, self.exchange(question, &mut is_sent)).await;
        Some(asked.unwrap_or(Err(if is_sent {
            RemoteError::NoAnswer { waited: deadline }
        } else {
            RemoteError::NotSent { waited: deadline }
        })))
    }

    async fn exchange(&self, question: &Question<'_>, is_sent: &mut bool) -> Result<Answer, RemoteError> {
        let body = question.json()?;
        loop {
            let kept = self.idle.lock().pop();
            let is_kept = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            if sender.ready().await.is_err() {
                if is_kept {
                    continue;
                }
                return Err(RemoteError::Unreachable { cause: "the connection was lost".to_owned() });
            }
            *is_sent = true;
            match super::exchange(&mut sender, &self.connector, body.clone()).await {
                // The service had closed the connection while it was kept.
                Err(RemoteError::Unreachable { .. }) if is_kept => *is_sent = false,
                Err(error) => return Err(error),
                Ok(reply) => {
                    let mut idle = self.idle.lock();
                    if idle.len() < IDLE {
                        idle.push(sender);
                    }
                    let decision: Result<Decision, _> = serde_json::from_slice(&reply);
                    return decision
                        .map(Answer::from)
                        .map_err(|error| RemoteError::Lost { cause: error.to_string() });
                }
            }
        }
    }

    /// A new connection, driven on the runtime of the service, not on that of the caller.
    async fn connect(&self) -> Result<Sender, RemoteError> {
        let connector = Arc::clone(&self.connector);
        let connected = self.runtime.spawn(async move { super::connect(&connector).await }).await;
        let cause = match connected {
            Ok(Ok(sender)) => return Ok(sender),
            Ok(Err(cause)) => cause,
            Err(_) => "the runtime of the connection ended".to_owned(),
        };
        Err(RemoteError::Unreachable { cause })
    }
}
