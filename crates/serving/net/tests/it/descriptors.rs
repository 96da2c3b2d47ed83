//! A process without a free file descriptor. Alone in its process, because the limit is the process's.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::fs::File;
use std::time::Duration;

use crate::common::{TestServer, say};
use rustix::process::{Resource, Rlimit, setrlimit};
use tollgate_net::AcceptLimits;

#[tokio::test(start_paused = true)]
async fn without_a_free_descriptor_connections_wait_and_are_accepted_later() {
    let server = TestServer::start(None, AcceptLimits::default()).await;
    let mut before = server.connect().await;
    assert_eq!(say(&mut before, "before").await, "before");
    let room = Rlimit { current: Some(100), maximum: Some(100) };
    setrlimit(Resource::Nofile, room).expect("less is always granted");
    let mut waiting = server.connect().await;
    // Nothing was awaited since the system took the connection, so the loop has not seen it.
    let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!taken.is_empty());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.counts(), [1, 1, 0, 0, 0], "none accepted, none lost");
    assert_eq!(say(&mut before, "meanwhile").await, "meanwhile");
    drop(taken);
    assert_eq!(say(&mut waiting, "after").await, "after");
}
