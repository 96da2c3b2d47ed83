//! The jobs that wait, in the order of their arrival. Reads no clock and takes no lock.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate_core::Timestamp;

/// The job that leaves next among those that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The job that came first.
    #[default]
    Fifo,
    /// The job that came last. Under a lasting overload the newest jobs are in time, instead of all of them
    /// being late. The oldest jobs starve, so set a longest wait.
    Lifo,
}

#[derive(Debug)]
pub(super) struct JobQueue<J> {
    jobs: VecDeque<(Timestamp, J)>,
    pub(super) order: Order,
    pub(super) capacity: usize,
    pub(super) max_wait: Option<Duration>,
}

impl<J> JobQueue<J> {
    pub(super) const fn new(order: Order, capacity: usize, max_wait: Option<Duration>) -> Self {
        Self { jobs: VecDeque::new(), order, capacity, max_wait }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Adds a job that came at `now`, or returns it if there is no room.
    pub(super) fn push(&mut self, job: J, now: Timestamp) -> Result<(), J> {
        if self.jobs.len() >= self.capacity {
            return Err(job);
        }
        // In the order of time, also if the clock went back.
        let now = self.jobs.back().map_or(now, |(last, _)| now.max(*last));
        self.jobs.push_back((now, job));
        Ok(())
    }

    /// The next job in order.
    pub(super) fn pop(&mut self) -> Option<J> {
        let next = match self.order {
            Order::Fifo => self.jobs.pop_front(),
            Order::Lifo => self.jobs.pop_back(),
        };
        next.map(|(_, job)| job)
    }

    /// The instant up to which the turn of the oldest job may come.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        let (came, _) = self.jobs.front()?;
        Some(*came + self.max_wait?)
    }

    /// The oldest job, if its deadline is before `now`.
    pub(super) fn pop_late(&mut self, now: Timestamp) -> Option<J> {
        let is_late = self.deadline()? < now;
        if is_late { self.jobs.pop_front().map(|(_, job)| job) } else { None }
    }

    /// Removes all waiting jobs, the oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = J> + '_ {
        self.jobs.drain(..).map(|(_, job)| job)
    }
}
