//! Wakes connections when one of their requests is due, to a few microseconds.
//!
//! tokio's own timers count milliseconds; a schedule of 10,000 a second would become bursts of ten.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Waker};
use std::time::Duration;

use tollgate_clock::SystemClock;
use tollgate_core::Clock as _;

use crate::pace::Course;

/// Shorter waits are spent polling the sockets: arming a timer would take about as long.
const SHORT: Duration = Duration::from_micros(20);

/// Wakes the task of one connection.
#[derive(Debug, Default)]
pub(crate) struct Bell(RefCell<Option<Waker>>);

impl Bell {
    /// The task of `cx` is the one to wake.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let mut waker = self.0.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn ring(&self) {
        if let Some(waker) = &*self.0.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// Rings the bell of connection `i mod connections` when request `i` of the grid is due; `bells` are those of
/// this thread, each with the number of its connection, in order.
pub(crate) async fn ring_on_time(
    course: &Course,
    connections: usize,
    bells: &[(usize, std::rc::Rc<Bell>)],
    clock: &SystemClock,
) -> io::Result<()> {
    let Some(grid) = course.grid else { return Ok(()) };
    let timer = Timer::new()?;
    let turns = bells.len() as u64;
    let index = |turn: u64| (turn / turns) * connections as u64 + bells[(turn % turns) as usize].0 as u64;
    let mut turn = 0;
    while index(turn) < course.on_grid {
        timer.wait(grid.at(index(turn)).since(clock.now())).await?;
        let now = clock.now();
        let first = turn;
        while index(turn) < course.on_grid && grid.at(index(turn)) <= now {
            // A connection that is late by more than a turn finds all requests that are due by itself.
            if turn - first < turns {
                bells[(turn % turns) as usize].1.ring();
            }
            turn += 1;
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
struct Timer(tokio::io::unix::AsyncFd<std::os::fd::OwnedFd>);

#[cfg(target_os = "linux")]
impl Timer {
    #[expect(
        deprecated,
        reason = "the other form is `unsafe`; this one is sound with a descriptor that we own and keep"
    )]
    fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(tokio::io::unix::AsyncFd::with_interest(timer, tokio::io::Interest::READABLE)?))
    }

    async fn wait(&self, span: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        if span < SHORT {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Timespec::try_from(span).map_err(|_| io::ErrorKind::InvalidInput)?;
        let once = Itimerspec { it_interval: never, it_value: once };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(self.0.get_ref(), &mut [0_u8; 8]) {
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                read => return Ok(read.map(|_| ready.clear_ready())?),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn wait(&self, span: Duration) -> io::Result<()> {
        if span < SHORT {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(span).await;
        }
        Ok(())
    }
}
