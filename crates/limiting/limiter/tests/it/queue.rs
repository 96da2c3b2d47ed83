//! Rules with `on_limit: queue`, on a time that only tests move.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod endings;
mod late;
mod many;
mod model;
mod sim;
mod waiting;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_limiter::{Descriptor, Entry, Limiter, Patience, Request, Scratch};
use tollgate_store::{Store, block_on};

use self::sim::{SimClock, Tasks};
use crate::common::NOON;

const LONG: Duration = Duration::from_secs(3_600);

/// Fate of one request: whether it passed, and after how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestFate {
    Waits,
    Passed(u64),
    Denied(u64),
}

/// A limiter whose callers wait in a world of their own.
struct Hall<'l, S: Store> {
    limiter: &'l Limiter<S>,
    world: Arc<SimClock>,
    tasks: Tasks<'l>,
    seen: Rc<RefCell<Vec<RequestFate>>>,
    /// When each that was denied may come again, in ms.
    retry_ms: Rc<RefCell<Vec<Option<u128>>>>,
    /// Those whose callers close their connections, and who is to be woken then.
    gone: Arc<Mutex<Gone>>,
}

#[derive(Default)]
struct Gone {
    callers: Vec<usize>,
    wakers: Vec<Waker>,
}

impl<'l, S: Store> Hall<'l, S> {
    fn new(limiter: &'l Limiter<S>) -> Self {
        let world = SimClock::at(NOON);
        let seen = Rc::default();
        let retry_ms = Rc::default();
        let gone = Arc::default();
        Self { limiter, tasks: Tasks::new(&world), world, seen, retry_ms, gone }
    }

    /// A request with these descriptors, each `key=value` and hits, that waits for at most `longest`. Returns
    /// its number.
    fn ask_for(&mut self, descriptors: &[(&'l str, u64)], longest: Duration) -> usize {
        let limiter = self.limiter;
        let world = Arc::clone(&self.world);
        let seen = Rc::clone(&self.seen);
        let descriptors = descriptors.to_vec();
        let index = seen.borrow().len();
        seen.borrow_mut().push(RequestFate::Waits);
        let retry_ms = Rc::clone(&self.retry_ms);
        let gone = Arc::clone(&self.gone);
        retry_ms.borrow_mut().push(None);
        let started = self.tasks.start(async move {
            let began = world.now();
            let entries: Vec<_> = descriptors
                .iter()
                .map(|(text, _)| text.split_once('=').unwrap_or((text, "")))
                .map(|(key, value)| [Entry::new(key, value)])
                .collect();
            let descriptors: Vec<_> = entries
                .iter()
                .zip(&descriptors)
                .map(|(entries, (_, hits))| Descriptor { hits: Some(*hits), ..Descriptor::new(entries) })
                .collect();
            let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
            let now = || world.clock();
            let left = |cx: &mut Context<'_>| {
                let mut gone = gone.lock();
                gone.wakers.push(cx.waker().clone());
                if gone.callers.contains(&index) { Poll::Ready(()) } else { Poll::Pending }
            };
            let sleep = |span| world.sleep(span);
            let patience = Patience { now: &now, sleep, longest, left: Some(&left) };
            let mut scratch = Scratch::new();
            let answer = limiter.decide_patiently(&request, world.clock(), &patience, &mut scratch).await;
            let ms = world.now().since(began).as_millis() as u64;
            let answer = answer.expect("a valid request");
            if let RetryAfter::After(wait) = answer.retry_after() {
                retry_ms.borrow_mut()[index] = Some(wait.as_millis());
            }
            let is_admitted = answer.is_admitted();
            seen.borrow_mut()[index] =
                if is_admitted { RequestFate::Passed(ms) } else { RequestFate::Denied(ms) };
        });
        assert_eq!(started, index);
        index
    }

    fn ask(&mut self, descriptor: &'l str) -> usize {
        self.ask_for(&[(descriptor, 1)], LONG)
    }

    fn leave(&mut self, index: usize) {
        self.tasks.drop_task(index);
    }

    /// Its caller closes the connection, at least its sending side.
    fn close(&mut self, index: usize) {
        let wakers = {
            let mut gone = self.gone.lock();
            gone.callers.push(index);
            std::mem::take(&mut gone.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
        self.pass_ms(0);
    }

    fn retry_ms(&self, index: usize) -> Option<u128> {
        self.retry_ms.borrow()[index]
    }

    fn pass_ms(&mut self, ms: u64) {
        let end = self.world.now() + Duration::from_millis(ms);
        self.tasks.run_until(end);
    }

    fn seen(&self) -> Vec<RequestFate> {
        self.seen.borrow().clone()
    }

    /// Permits left in the counter of `descriptor`.
    fn left(&self, descriptor: &str) -> u64 {
        let (key, value) = descriptor.split_once('=').unwrap_or((descriptor, ""));
        let reports = block_on(self.limiter.inspect("d", &[Entry::new(key, value)], self.world.now()));
        reports.expect("a counter")[0].decision.remaining()
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> u64 {
        let text = self.limiter.metrics().render();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    fn event(&self, event: &str) -> u64 {
        self.metric(&format!(r#"tollgate_queue_events_total{{event="{event}"}}"#))
    }

    fn waiting(&self) -> u64 {
        self.metric("tollgate_queued_requests")
    }

    fn now(&self) -> Timestamp {
        self.world.now()
    }
}
