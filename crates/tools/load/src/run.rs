//! A run: threads, each with its share of the connections, from the first connect to the last reply.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock, mpsc};
use std::time::Duration;

use rustix::thread::CpuSet;
use rustix::time::{ClockId, clock_gettime};
use tokio::task::JoinSet;
use tollgate_clock::SystemClock;
use tollgate_core::{Clock as _, Timestamp};

use crate::alarm::{Bell, ring_on_time};
use crate::codec::codec;
use crate::error::RunError;
use crate::lane::Lane;
use crate::pace::{Course, Pace};
use crate::tally::Tally;
use crate::wire::{Dialler, Wire};
use crate::{Keys, Plan, Report};

/// Interval at which a thread checks whether it still gets replies.
const LOOK: Duration = Duration::from_millis(50);
/// Connections in a row that may end without a single reply.
const BARREN: u32 = 3;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Replies so far, including the warm-up.
    pub replies: u64,
    /// Whole seconds since the start.
    pub seconds: u64,
}

/// State shared by all threads.
struct RunState<'a> {
    plan: &'a Plan,
    clock: SystemClock,
    dialler: Dialler,
    /// All threads are connected, or one cannot connect.
    connected: Barrier,
    has_failed: AtomicBool,
    course: OnceLock<Course>,
    replies: AtomicU64,
}

/// The result of a thread.
struct Share {
    tally: Tally,
    cpu: Duration,
}

impl Plan {
    /// Runs the plan, and reports to `progress` about once a second.
    ///
    /// # Errors
    /// When it cannot begin. Requests that fail later are counted in the report.
    pub fn run(&self, progress: &mut dyn FnMut(Progress)) -> Result<Report, RunError> {
        let threads = self.threads.clamp(1, self.connections.max(1));
        codec(self).map_err(RunError::Ask)?;
        let shared = RunState {
            plan: self,
            clock: SystemClock::new(),
            dialler: Dialler::new(self)?,
            connected: Barrier::new(threads),
            has_failed: AtomicBool::new(false),
            course: OnceLock::new(),
            replies: AtomicU64::new(0),
        };
        let (done, all_done) = mpsc::channel::<()>();
        let shares: Vec<Result<Share, RunError>> = std::thread::scope(|scope| {
            let work = |thread| {
                let shared = &shared;
                let done = done.clone();
                scope.spawn(move || {
                    let _done = done; // dropped with the thread
                    work(shared, thread, threads)
                })
            };
            let workers: Vec<_> = (0..threads).map(work).collect();
            drop(done);
            let mut seconds = 0;
            while let Err(mpsc::RecvTimeoutError::Timeout) = all_done.recv_timeout(Duration::from_secs(1)) {
                seconds += 1;
                progress(Progress { replies: shared.replies.load(Ordering::Relaxed), seconds });
            }
            let joined = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a thread of the load panicked").into()))
            };
            workers.into_iter().map(joined).collect()
        });
        let mut tally = Tally::new();
        let mut cpu = Duration::ZERO;
        for share in shares {
            let share = share?;
            tally.add(&share.tally);
            cpu += share.cpu;
        }
        let course = shared.course.into_inner().ok_or_else(|| io::Error::other("nothing was connected"))?;
        tally.failed("never sent: every connection was lost", course.untaken());
        let ended = tally.last.max(course.until.unwrap_or(course.counted_from));
        Ok(Report::new(self, &tally, ended.since(course.counted_from), cpu))
    }
}

fn work(shared: &RunState<'_>, thread: usize, threads: usize) -> Result<Share, RunError> {
    let prepared = prepare(shared, thread, threads);
    shared.has_failed.fetch_or(prepared.is_err(), Ordering::Relaxed);
    shared.connected.wait();
    let (runtime, wires) = prepared?;
    if shared.has_failed.load(Ordering::Relaxed) {
        // The thread that failed has the reason.
        return Ok(Share { tally: Tally::new(), cpu: Duration::ZERO });
    }
    let course = shared.course.get_or_init(|| Course::new(shared.plan, shared.clock.now())).clone();
    runtime.block_on(load(shared, &course, wires))
}

type Prepared = (tokio::runtime::LocalRuntime, Vec<(usize, Wire)>);

/// A runtime on its core, and this thread's connections with their numbers.
fn prepare(shared: &RunState<'_>, thread: usize, threads: usize) -> Result<Prepared, RunError> {
    let plan = shared.plan;
    if let Some(&core) = plan.cores.get(thread % plan.cores.len().max(1)) {
        pin(core).map_err(|source| RunError::Pin { core, source })?;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
    let mut wires = Vec::new();
    for connection in (thread..plan.connections.max(1)).step_by(threads) {
        wires.push((connection, runtime.block_on(shared.dialler.dial())?));
    }
    Ok((runtime, wires))
}

fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// The whole load of one thread.
async fn load(shared: &RunState<'_>, course: &Course, wires: Vec<(usize, Wire)>) -> Result<Share, RunError> {
    let plan = shared.plan;
    let connections = plan.connections.max(1);
    let tally = Rc::new(RefCell::new(Tally::new()));
    let mut lanes = Vec::new();
    let mut bells = Vec::new();
    let mut tasks = JoinSet::new();
    for (connection, wire) in wires {
        // Streams of random numbers that do not meet: seeds far apart.
        let seed = plan.seed.wrapping_add((connection as u64).wrapping_mul(0xA076_1D64_78BD_642F));
        let keys = Keys::new(plan.keys, plan.distribution, seed);
        let pace = Pace::new(course.clone(), connection, connections);
        let lane = Rc::new(RefCell::new(Lane::new(codec(plan).map_err(RunError::Ask)?, keys, pace)));
        let bell = Rc::new(Bell::default());
        let dialler = shared.dialler.clone();
        let clock = shared.clock.clone();
        tasks.spawn_local(converse(wire, lane.clone(), tally.clone(), bell.clone(), dialler, clock));
        lanes.push(lane);
        bells.push((connection, bell));
    }
    let ring_course = course.clone();
    let ring_clock = shared.clock.clone();
    let ringer = tokio::task::spawn_local(async move {
        ring_on_time(&ring_course, connections, &bells, &ring_clock).await
    });

    let mut watch = Watch { shared, course, replies: 0, quiet_since: shared.clock.now() };
    let mut looks = tokio::time::interval(LOOK);
    let mut cpu_before = cpu();
    let warm = tokio::time::sleep(course.counted_from.since(shared.clock.now()));
    tokio::pin!(warm);
    let mut is_warm = false;
    let why = loop {
        tokio::select! {
            joined = tasks.join_next() => match joined {
                None => break None,
                Some(Err(error)) => return Err(io::Error::other(error).into()),
                Some(Ok(())) => {}
            },
            () = &mut warm, if !is_warm => {
                is_warm = true;
                cpu_before = cpu();
            }
            _ = looks.tick() => {
                let is_waiting = lanes.iter().any(|lane| lane.borrow().is_waiting());
                if let Some(why) = watch.look(tally.borrow().replies, is_waiting) {
                    break Some(why);
                }
            }
        }
    };
    let cpu = cpu().saturating_sub(cpu_before);
    ringer.abort();
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    watch.tell(tally.borrow().replies);
    let why = why.unwrap_or_else(|| "no answer".to_owned());
    for lane in &lanes {
        lane.borrow_mut().give_up(&why, &mut tally.borrow_mut());
    }
    let tally = tally.borrow().clone();
    Ok(Share { tally, cpu })
}

/// One connection, and those after it where the server ends it.
async fn converse(
    mut wire: Wire,
    lane: Rc<RefCell<Lane>>,
    tally: Rc<RefCell<Tally>>,
    bell: Rc<Bell>,
    dialler: Dialler,
    clock: SystemClock,
) {
    let mut barren = 0;
    loop {
        wire.open(&mut lane.borrow_mut());
        let before = tally.borrow().replies;
        let ended = poll_fn(|cx| {
            bell.listen(cx);
            wire.poll(cx, &mut lane.borrow_mut(), &mut tally.borrow_mut(), &clock)
        });
        let Err(why) = ended.await else { return };
        lane.borrow_mut().lose(&why, &mut tally.borrow_mut());
        // Other connections may have had replies meanwhile; then this one has a few more attempts, which do
        // no harm.
        barren = if tally.borrow().replies == before { barren + 1 } else { 0 };
        let again = if barren < BARREN {
            dialler.dial().await.map_err(|error| error.to_string())
        } else {
            Err(why.why().to_owned())
        };
        match again {
            Ok(fresh) => wire = fresh,
            Err(why) => {
                let mut lane = lane.borrow_mut();
                let mut tally = tally.borrow_mut();
                lane.fail_due(clock.now(), &why, &mut tally);
                return lane.give_up(&why, &mut tally);
            }
        }
    }
}

/// Notices when replies stop.
struct Watch<'a> {
    shared: &'a RunState<'a>,
    course: &'a Course,
    replies: u64,
    quiet_since: Timestamp,
}

impl Watch<'_> {
    /// Why to give up, if it is time to.
    fn look(&mut self, replies: u64, is_waiting: bool) -> Option<String> {
        let now = self.shared.clock.now();
        let patience = self.shared.plan.patience;
        if replies != self.replies || !is_waiting {
            self.quiet_since = now;
        }
        self.tell(replies);
        let is_overdue = self.course.until.is_some_and(|until| now.since(until) > patience);
        let is_quiet = now.since(self.quiet_since) > patience;
        (is_overdue || is_quiet).then(|| format!("no answer within {patience:?}"))
    }

    /// Adds new replies to the progress that the main thread shows.
    fn tell(&mut self, replies: u64) {
        self.shared.replies.fetch_add(replies - self.replies, Ordering::Relaxed);
        self.replies = replies;
    }
}

/// CPU that this thread has used.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
