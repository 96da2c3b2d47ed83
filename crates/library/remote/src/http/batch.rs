//! The task that asks the service: one request at a time, which carries all questions that have arrived
//! meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::Sender;
use crate::answer::{Answer, Decision};
use crate::connect::{Connector, PAUSE};
use crate::error::RemoteError;

/// The most questions in one request: as many as the service takes.
const MAX_BATCH: usize = 1_000;
/// Most bytes of questions in one request. A larger question is sent alone.
const MAX_REQUEST: usize = 60 << 10;

/// A question that is to be sent.
#[derive(Debug)]
pub(crate) struct QueuedQuestion {
    /// The request, as JSON.
    pub(crate) json: Vec<u8>,
    pub(crate) claim: Arc<Claim>,
    pub(crate) ends: Instant,
    pub(crate) answer: oneshot::Sender<Result<Answer, RemoteError>>,
}

/// Whether a question was sent or given up: exactly one of the two happens first.
#[derive(Debug, Default)]
pub(crate) struct Claim(AtomicU8);

const SENT: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Claim {
    /// Gives the question up. True if it was not sent, and now never will be.
    pub(crate) fn give_up(&self) -> bool {
        self.settle(GIVEN_UP)
    }

    fn send(&self) -> bool {
        self.settle(SENT)
    }

    fn settle(&self, state: u8) -> bool {
        let settled = self.0.compare_exchange(0, state, Ordering::AcqRel, Ordering::Acquire);
        settled.is_ok() || settled == Err(state)
    }
}

#[derive(Deserialize)]
struct BatchReply {
    decisions: Vec<Decision>,
}

/// Answers questions until there are no callers any more.
pub(crate) async fn drive(mut asks: mpsc::Receiver<QueuedQuestion>, connector: Arc<Connector>) {
    let mut line = BatchConnection { connector, sender: None, down: None };
    let mut batch = Vec::new();
    while asks.recv_many(&mut batch, MAX_BATCH).await > 0 {
        while !batch.is_empty() {
            let rest = batch.split_off(fitting(&batch));
            line.answer(&mut batch).await;
            batch = rest;
        }
    }
}

/// Number of these questions that fit into one request, at least one.
fn fitting(batch: &[QueuedQuestion]) -> usize {
    let mut bytes = 0;
    let fits = |ask: &&QueuedQuestion| {
        bytes += ask.json.len() + 1;
        bytes <= MAX_REQUEST
    };
    batch.iter().take_while(fits).count().max(1)
}

/// The connection for batches, and the pause after one that failed.
struct BatchConnection {
    connector: Arc<Connector>,
    sender: Option<Sender>,
    /// End of the pause in which no other is tried, and the error of the last attempt.
    down: Option<(Instant, String)>,
}

impl BatchConnection {
    /// Answers all of the batch, and empties it.
    async fn answer(&mut self, batch: &mut Vec<QueuedQuestion>) {
        let Some(ends) = batch.iter().map(|ask| ask.ends).max() else { return };
        let connected = match timeout_at(ends, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err("connecting took too long".to_owned()),
        };
        if let Err(cause) = connected {
            // Calls within the pause do not prolong it.
            if self.down.as_ref().is_none_or(|(until, _)| *until <= Instant::now()) {
                self.down = Some((Instant::now() + PAUSE, cause.clone()));
            }
            return fail(batch.drain(..), &RemoteError::Unreachable { cause });
        }
        // From here on permits may be taken.
        batch.retain(|ask| ask.claim.send());
        if batch.is_empty() {
            return;
        }
        match self.exchange(batch, ends).await {
            Ok(answers) => {
                for (ask, answer) in batch.drain(..).zip(answers) {
                    drop(ask.answer.send(Ok(answer)));
                }
            }
            // The service decides all of a request or nothing: an invalid question must not fail the others.
            Err(RemoteError::Rejected { .. }) if batch.len() > 1 => {
                for ask in batch.drain(..) {
                    let one = self.exchange(std::slice::from_ref(&ask), ends).await;
                    let one = one.and_then(|answers| answers.into_iter().next().ok_or_else(too_few));
                    drop(ask.answer.send(one));
                }
            }
            Err(error) => fail(batch.drain(..), &error),
        }
    }

    /// Makes sure that there is a connection.
    async fn connect(&mut self) -> Result<(), String> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        self.sender = None;
        if let Some((until, cause)) = &self.down
            && Instant::now() < *until
        {
            return Err(cause.clone());
        }
        let sender = super::connect(&self.connector).await?;
        self.sender = Some(sender);
        self.down = None;
        Ok(())
    }

    async fn exchange(
        &mut self,
        batch: &[QueuedQuestion],
        ends: Instant,
    ) -> Result<Vec<Answer>, RemoteError> {
        let Some(mut sender) = self.sender.take() else {
            return Err(RemoteError::Unreachable { cause: "the connection was lost".to_owned() });
        };
        let exchanged = super::exchange(&mut sender, &self.connector, body(batch));
        // The callers' deadlines have passed by then; without an answer the connection is useless.
        let exchanged = timeout_at(ends, exchanged).await;
        let reply = exchanged.map_err(|_| RemoteError::Lost { cause: "the deadline passed".to_owned() })?;
        // A rejected question does not make the connection unusable.
        if matches!(reply, Ok(_) | Err(RemoteError::Rejected { .. })) {
            self.sender = Some(sender);
        }
        read(&reply?, batch.len())
    }
}

fn body(batch: &[QueuedQuestion]) -> Vec<u8> {
    let mut body = Vec::with_capacity(32 + batch.iter().map(|ask| ask.json.len() + 1).sum::<usize>());
    body.extend_from_slice(b"{\"requests\":[");
    for (index, ask) in batch.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&ask.json);
    }
    body.extend_from_slice(b"]}");
    body
}

fn read(body: &[u8], asked: usize) -> Result<Vec<Answer>, RemoteError> {
    let reply: BatchReply =
        serde_json::from_slice(body).map_err(|error| RemoteError::Lost { cause: error.to_string() })?;
    if reply.decisions.len() != asked {
        return Err(too_few());
    }
    Ok(reply.decisions.into_iter().map(Answer::from).collect())
}

fn too_few() -> RemoteError {
    RemoteError::Lost { cause: "the reply has another number of decisions than were asked for".to_owned() }
}

fn fail(asks: impl Iterator<Item = QueuedQuestion>, error: &RemoteError) {
    for ask in asks {
        drop(ask.answer.send(Err(error.clone())));
    }
}
