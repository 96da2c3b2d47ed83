//! Random loads, held against a model that counts in milliseconds: which job leaves when, and which never.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::{JobError, LeakyExecutor, Left, Order, SubmitError, ms, settle, start};

/// Fate of a job: it left, it expired, it was not taken, it was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Left(u64),
    Expired(u64),
    Full,
    Discarded,
}

#[derive(Clone, Debug)]
struct ExecutorPlan {
    /// Milliseconds between two jobs.
    interval: u64,
    batch: u64,
    capacity: usize,
    workers: usize,
    is_lifo: bool,
    max_wait: Option<u64>,
    /// Pauses, and how many jobs come after each, and how long those run.
    loads: Vec<(u64, usize, u64)>,
    drains: bool,
}

/// All times are even but the longest wait, so that no deadline meets a turn: which is first then is another
/// test. With few workers jobs leave one by one, since it is open whether one that ends and one that leaves at
/// the same instant count together.
fn plan() -> impl Strategy<Value = ExecutorPlan> {
    let numbers = (1..10_u64, 1..6_u64, 1..12_usize, prop_oneof![Just(1_000_usize), 1..4_usize]);
    let choices = (any::<bool>(), prop::option::of(0..60_u64), any::<bool>());
    let loads = prop::collection::vec((0..40_u64, 0..8_usize, 0..50_u64), 1..20);
    (numbers, choices, loads).prop_map(
        |((interval, batch, capacity, workers), (is_lifo, wait, drains), loads)| ExecutorPlan {
            interval: 2 * interval,
            batch: if workers < 1_000 { 1 } else { batch },
            capacity,
            workers,
            is_lifo,
            max_wait: wait.map(|wait| 2 * wait + 1),
            loads: loads.into_iter().map(|(pause, jobs, work)| (2 * pause, jobs, 2 * work)).collect(),
            drains,
        },
    )
}

/// The model: it looks at every millisecond.
struct ExecutorModel {
    plan: ExecutorPlan,
    fates: Vec<Option<Fate>>,
    /// Number, arrival, work.
    line: VecDeque<(usize, u64, u64)>,
    /// Ends of those that run.
    running: Vec<u64>,
    /// When the bucket is full again; it is full of `batch` permits.
    full_at: i64,
    /// Jobs of the next turn, and its instant.
    turn: Option<(u64, u64)>,
}

impl ExecutorModel {
    /// Moves the model on to `now`.
    fn step(&mut self, now: u64) {
        self.running.retain(|end| *end > now);
        let size = self.plan.interval as i64;
        loop {
            if let Some((jobs, at)) = self.turn
                && at <= now
            {
                self.turn = None;
                for _ in 0..jobs {
                    let next = if self.plan.is_lifo { self.line.pop_back() } else { self.line.pop_front() };
                    let (job, _, work) = next.expect("a turn is for jobs that wait");
                    self.fates[job] = Some(Fate::Left(now));
                    if work > 0 {
                        self.running.push(now + work);
                    }
                }
            }
            let free = (self.plan.workers - self.running.len()) as u64;
            let ready = self.plan.batch.min(self.line.len() as u64).min(free);
            if let Some((jobs, _)) = self.turn
                && jobs > ready
            {
                self.full_at -= jobs as i64 * size;
                self.turn = None;
            }
            if ready > 0 && self.turn.is_none() {
                let permits = ready as i64 * size;
                let all = self.plan.batch as i64 * size;
                self.full_at = self.full_at.max(now as i64) + permits;
                let at = (self.full_at - all).max(now as i64) as u64;
                self.turn = Some((ready, at));
                if at <= now {
                    continue;
                }
            }
            let Some(max_wait) = self.plan.max_wait else { return };
            let before = self.line.len();
            while let Some((job, came, _)) = self.line.front()
                && came + max_wait <= now
            {
                self.fates[*job] = Some(Fate::Expired(came + max_wait));
                self.line.pop_front();
            }
            if self.line.len() == before {
                return;
            }
        }
    }

    fn come(&mut self, now: u64, work: u64) {
        let is_full = self.line.len() >= self.plan.capacity;
        self.fates.push(is_full.then_some(Fate::Full));
        if !is_full {
            self.line.push_back((self.fates.len() - 1, now, work));
        }
    }
}

/// The fate of each job in the model.
fn expected(plan: &ExecutorPlan) -> Vec<Fate> {
    let line = VecDeque::new();
    let running = Vec::new();
    let mut model =
        ExecutorModel { plan: plan.clone(), fates: Vec::new(), line, running, full_at: 0, turn: None };
    let mut now = 0;
    for (pause, jobs, work) in &plan.loads {
        for _ in 0..*pause {
            model.step(now);
            now += 1;
        }
        model.step(now);
        (0..*jobs).for_each(|_| model.come(now, *work));
        model.step(now);
    }
    while plan.drains && !model.line.is_empty() {
        model.step(now);
        now += 1;
    }
    model.fates.into_iter().map(|fate| fate.unwrap_or(Fate::Discarded)).collect()
}

/// The fate of each job in the executor.
async fn found(plan: &ExecutorPlan) -> Vec<Fate> {
    let mut builder = LeakyExecutor::builder(1, ms(plan.interval))
        .batch(plan.batch as usize)
        .capacity(plan.capacity)
        .workers(plan.workers)
        .order(if plan.is_lifo { Order::Lifo } else { Order::Fifo });
    if let Some(max_wait) = plan.max_wait {
        builder = builder.max_wait(ms(max_wait));
    }
    let left = Left::new();
    let executor = start(builder);
    let mut ends = Vec::new();
    for (pause, jobs, work) in &plan.loads {
        tokio::time::sleep(ms(*pause)).await;
        settle().await;
        for _ in 0..*jobs {
            let ticket = executor.submit(left.job(ends.len() as u64, ms(*work)));
            let began = left.began;
            ends.push(tokio::spawn(async move {
                match ticket {
                    Err(SubmitError::Full { .. }) => Fate::Full,
                    Err(_) => Fate::Discarded,
                    Ok(ticket) => match ticket.await {
                        Ok(_) => Fate::Left(0),
                        Err(JobError::Expired { .. }) => Fate::Expired(began.elapsed().as_millis() as u64),
                        Err(_) => Fate::Discarded,
                    },
                }
            }));
        }
        settle().await;
    }
    let stats = if plan.drains { executor.drain().await } else { executor.shutdown().await };
    let mut fates = Vec::new();
    for end in ends {
        fates.push(end.await.expect("no panic"));
    }
    for (name, at) in left.take() {
        assert_eq!(fates[name as usize], Fate::Left(0));
        fates[name as usize] = Fate::Left(at.as_millis() as u64);
    }
    let count = |is: fn(&Fate) -> bool| fates.iter().filter(|fate| is(fate)).count() as u64;
    assert_eq!(stats.done, count(|fate| matches!(fate, Fate::Left(_))));
    assert_eq!(stats.expired, count(|fate| matches!(fate, Fate::Expired(_))));
    assert_eq!(stats.rejected, count(|fate| *fate == Fate::Full));
    assert_eq!(stats.discarded, count(|fate| *fate == Fate::Discarded));
    fates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_leaves_in_its_turn_or_ends_as_the_model_says(plan in plan()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let found = runtime.expect("a runtime").block_on(found(&plan));
        prop_assert_eq!(&found, &expected(&plan));
        // Whatever the model says: in any span no more leave than a batch and what the rate adds.
        let mut at: Vec<u64> = found.iter().filter_map(|fate| match fate {
            Fate::Left(at) => Some(*at),
            _ => None,
        }).collect();
        at.sort_unstable();
        for (first, from) in at.iter().enumerate() {
            for (count, to) in (1..).zip(&at[first..]) {
                prop_assert!(count <= plan.batch + (to - from) / plan.interval, "{from} to {to} ms");
            }
        }
    }
}
