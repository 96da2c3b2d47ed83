//! The effect of the breaker on calls, without any server.

use std::sync::Arc;

use tokio::sync::oneshot;
use tollgate_store::StoreName;
use tollgate_store::remote::{BreakerSettings, Failure};

use super::*;
use crate::echo::{Echo, EchoCall};
use crate::flight::QueueEntry;
use crate::queue::{ConnectionQueue, Traffic};
use crate::request::Waiter;
use crate::settings::LinkSettings;
use crate::shared::Shared;

/// As a call that another node sent here, or that was in flight when the connection broke.
#[tokio::test]
async fn a_call_that_comes_back_to_an_open_breaker_fails_at_once() {
    let mut settings = LinkSettings::parse_url("redis://127.0.0.1:1").expect("a URL");
    settings.breaker = BreakerSettings { failures: 2, ..BreakerSettings::default() };
    let shared = Shared::new(settings, StoreName::new("redis"), None).expect("settings");
    let queue = ConnectionQueue::new(&Arc::new(shared), 0, Traffic::Foreground);
    let mut driver = Driver::new(&queue, Echo, Box::new(|_, _| None));
    for is_open in [false, true] {
        driver.failed(&ServerError::new(Cause::Network, "cut"));
        assert_eq!(driver.breaker.is_open(), is_open);
        let (to, mut answer) = oneshot::channel();
        let waiter = Waiter::new(to, Instant::now() + Duration::from_secs(60));
        queue.push_front(QueueEntry::New(EchoCall::new(b"k", waiter)));
        match answer.try_recv() {
            Ok(Err(Failure::NotSent { why, .. })) => assert!(is_open && &*why == "cut"),
            Err(_) => assert!(!is_open, "it waits"),
            other => panic!("{other:?}"),
        }
    }
}
