//! Ends of jobs and executors: by panics, by shutdown, with their runtime.

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{Duration, JobError, LeakyExecutor, Left, SECOND, SubmitError, Ticket, ms, settle, start};

fn hundred() -> LeakyExecutor {
    start(LeakyExecutor::builder(100, SECOND))
}

#[tokio::test(start_paused = true)]
async fn a_job_that_panics_says_so_and_ends_nothing_else() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(100, SECOND).workers(1));
    let texts: [Box<dyn std::any::Any + Send>; 3] =
        [Box::new("a text"), Box::new("a text".to_owned()), Box::new(5_u8)];
    for (text, message) in texts.into_iter().zip(["a text", "a text", "no message"]) {
        let job = async move {
            tokio::task::yield_now().await;
            std::panic::resume_unwind(text)
        };
        let ticket: Ticket<()> = executor.submit(job).expect("room");
        assert_eq!(ticket.await, Err(JobError::Panicked { message: message.to_owned() }));
    }
    assert_eq!(left.submit(&executor, 3).expect("room").await, Ok(3));
    let stats = executor.drain().await;
    assert_eq!((stats.panicked, stats.done, stats.running), (3, 1, 0));
    assert_eq!(left.take(), [(3, ms(30))]);
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_those_that_wait_leave_in_their_turn_and_takes_no_more() {
    let left = Left::new();
    let executor = hundred();
    let tickets: Vec<_> = (0..4).map(|name| left.submit(&executor, name).expect("room")).collect();
    let other = executor.clone();
    let drain = tokio::spawn(async move { other.drain().await });
    settle().await;
    assert!(matches!(left.submit(&executor, 9), Err(SubmitError::ShutDown)));
    let stats = drain.await.expect("no panic");
    assert_eq!((stats.done, stats.discarded, stats.waiting, stats.running), (4, 0, 0, 0));
    assert_eq!(left.began.elapsed(), ms(30));
    for ticket in tickets {
        assert!(ticket.await.is_ok());
    }
    assert_eq!(executor.drain().await, stats, "again, it has nothing to do");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_discards_those_that_wait_and_awaits_those_that_run() {
    let left = Left::new();
    let executor = hundred();
    let runs = executor.submit(left.job(0, ms(500))).expect("room");
    let waits: Vec<_> = (1..4).map(|name| left.submit(&executor, name).expect("room")).collect();
    settle().await;
    let stats = executor.shutdown().await;
    assert_eq!((stats.done, stats.discarded), (1, 3));
    assert_eq!((left.take(), left.began.elapsed()), (vec![(0, ms(0))], ms(500)));
    assert_eq!(runs.await, Ok(0));
    for ticket in waits {
        assert_eq!(ticket.await, Err(JobError::ShutDown));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_may_be_cut_short_by_a_shutdown() {
    let left = Left::new();
    let executor = start(LeakyExecutor::builder(1, SECOND));
    let tickets: Vec<_> = (0..100).map(|name| left.submit(&executor, name).expect("room")).collect();
    assert!(tokio::time::timeout(ms(2_500), executor.drain()).await.is_err());
    let stats = executor.shutdown().await;
    assert_eq!((stats.done, stats.discarded), (3, 97));
    for (name, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.await.is_ok(), name < 3, "job {name}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_clones_are_dropped_those_that_wait_are_discarded() {
    let left = Left::new();
    let executor = hundred();
    let runs = executor.submit(left.job(0, ms(500))).expect("room");
    let waits = left.submit(&executor, 1).expect("room");
    settle().await;
    let clone = executor.clone();
    drop(executor);
    assert_eq!(clone.stats().waiting, 1);
    drop(clone);
    assert_eq!(waits.await, Err(JobError::ShutDown));
    assert_eq!(runs.await, Ok(0));
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_also_if_nobody_waits_for_its_result() {
    let left = Left::new();
    let executor = hundred();
    drop(left.submit(&executor, 1).expect("room"));
    assert_eq!(executor.drain().await.done, 1);
    assert_eq!(left.take().len(), 1);
}

#[test]
fn a_runtime_that_shuts_down_leaves_no_ticket_without_an_answer() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let (begun, has_begun) = oneshot::channel();
    let entered = runtime.enter();
    let executor = start(LeakyExecutor::builder(1, Duration::from_secs(3_600)));
    drop(entered);
    let job = async move {
        let _nobody = begun.send(());
        std::future::pending::<()>().await;
    };
    let runs = executor.submit(job).expect("room");
    let waits = executor.submit(async {}).expect("room");
    has_begun.blocking_recv().expect("it runs");
    drop(runtime);
    assert_eq!(runs.blocking_wait(), Err(JobError::Lost));
    assert_eq!(waits.blocking_wait(), Err(JobError::ShutDown));
    assert!(matches!(executor.submit(async {}), Err(SubmitError::ShutDown)));
    assert_eq!((executor.stats().discarded, executor.stats().running), (1, 0));
}

#[test]
fn functions_that_block_and_threads_take_part() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let entered = runtime.enter();
    let executor = start(LeakyExecutor::builder(1_000, SECOND).capacity(1_000));
    drop(entered);
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let executor = executor.clone();
            std::thread::spawn(move || {
                let job = move |number: u64| executor.submit_blocking(move || number).expect("room");
                let tickets: Vec<_> = (0..25).map(|number| job(thread * 25 + number)).collect();
                tickets.into_iter().map(|ticket| ticket.blocking_wait().expect("a result")).sum::<u64>()
            })
        })
        .collect();
    let sum: u64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
    assert_eq!(sum, 4_950);
    let panics: Ticket<()> =
        executor.submit_blocking(|| std::panic::resume_unwind(Box::new("a fault"))).expect("room");
    assert_eq!(panics.blocking_wait(), Err(JobError::Panicked { message: "a fault".to_owned() }));
    let stats = runtime.block_on(executor.drain());
    assert_eq!((stats.done, stats.panicked), (100, 1));
}

/// Threads that submit while the executor drains or is shut down or dropped: every ticket has an answer, and
/// the answers add up.
#[test]
fn whenever_it_ends_every_job_that_was_taken_has_an_answer() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    for round in 0..24 {
        let entered = runtime.enter();
        let builder = LeakyExecutor::builder(1_000_000, SECOND).batch(50).workers(20).capacity(200);
        let executor = start(if round % 2 == 0 { builder } else { builder.max_wait(ms(1)) });
        drop(entered);
        let submit = |executor: LeakyExecutor| {
            std::thread::spawn(move || {
                let mut taken = Vec::new();
                let mut is_open = true;
                while is_open && taken.len() < 1_000 {
                    match executor.submit(tokio::task::yield_now()) {
                        Ok(ticket) => taken.push(ticket),
                        Err(SubmitError::Full { .. }) => std::thread::yield_now(),
                        Err(_) => is_open = false,
                    }
                }
                taken
            })
        };
        let threads = [submit(executor.clone()), submit(executor.clone())];
        let is_going = |thread: &std::thread::JoinHandle<_>| !thread.is_finished();
        while executor.stats().done < 100 * round % 700 && threads.iter().any(is_going) {
            std::thread::yield_now();
        }
        let stats = match round % 3 {
            0 => Some(runtime.block_on(executor.drain())),
            1 => Some(runtime.block_on(executor.shutdown())),
            _ => None,
        };
        drop(executor);
        let mut answers = [0_u64; 3];
        for thread in threads {
            for ticket in thread.join().expect("no panic") {
                match ticket.blocking_wait() {
                    Ok(()) => answers[0] += 1,
                    Err(JobError::Expired { .. }) => answers[1] += 1,
                    Err(JobError::ShutDown) => answers[2] += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        if let Some(stats) = stats {
            assert_eq!(answers, [stats.done, stats.expired, stats.discarded], "round {round}");
            assert_eq!((stats.waiting, stats.running), (0, 0));
        }
    }
}
