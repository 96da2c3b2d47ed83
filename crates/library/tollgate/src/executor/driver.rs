//! The task that lets jobs leave at the rate.
//!
//! It reserves permits for the next batch and sleeps until their turn. So the turns are on the grid of the
//! rate while jobs wait, however late a timer fires: lateness does not add up. Which jobs leave is decided at
//! the turn. Not here: the rate (`RateLimiter`) and the jobs (`shared`).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_core::{Clock, Timestamp};

use super::job::Job;
use super::shared::ExecutorCore;
use crate::reservation::Reservation;

/// Time until it asks again for permits that the quota could not promise.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn drive(shared: Arc<ExecutorCore>) {
    let _closes = Driven(Arc::clone(&shared));
    let mut turn: Option<Reservation> = None;
    loop {
        let now = shared.clock.now();
        if let Some(turn) = turn.take_if(|turn| turn.act_at() <= now) {
            leave(&shared, turn, now);
        }
        let look = shared.look(now);
        if look.is_over {
            break;
        }
        // A turn for more jobs than wait is later than necessary, so its permits are given back.
        turn = turn.filter(|turn| turn.permits() <= look.ready as u64);
        if look.ready > 0 && turn.is_none() {
            turn = shared.limiter.reserve(look.ready as u64, Duration::MAX).ok();
            if turn.as_ref().is_some_and(|turn| turn.act_at() <= now) {
                continue;
            }
        }
        if shared.expire(now + Duration::from_nanos(1)) {
            continue;
        }
        let retry = (look.ready > 0).then_some(now + RETRY);
        let turn_at = turn.as_ref().map(Reservation::act_at).or(retry);
        let wake = [turn_at, look.deadline].into_iter().flatten().min().unwrap_or(Timestamp::NEVER);
        let _either = timeout(wake.since(now), shared.changed.notified()).await;
    }
}

/// Runs the jobs whose turn it is.
fn leave(shared: &Arc<ExecutorCore>, turn: Reservation, now: Timestamp) {
    let jobs = shared.take(turn.permits() as usize, now);
    if jobs.is_empty() {
        return; // the permits are given back
    }
    turn.commit(jobs.len() as u64);
    for job in jobs {
        tokio::spawn(run(job, RunningJob(Arc::clone(shared), None)));
    }
}

async fn run(job: Box<dyn Job>, mut running: RunningJob) {
    running.1 = Some(job.run().await);
}

/// A job that runs, and whether it panicked once that is known.
struct RunningJob(Arc<ExecutorCore>, Option<bool>);

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// When the driver ends, with its runtime or with its work, no job waits for it.
struct Driven(Arc<ExecutorCore>);

impl Drop for Driven {
    fn drop(&mut self) {
        self.0.close(false);
    }
}
