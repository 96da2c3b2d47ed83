//! A workload for tests: each item is one script call, whose reply is its key.

use std::sync::LazyLock;
use std::thread::LocalKey;

use tokio::time::Instant;
use tollgate_store::remote::Failure;

use crate::{
    Item, PerThread, Planned, Replies, Request, Script, Shared, ThreadMap, Value, Waiter, Workload, array,
    bulk,
};

/// A workload whose scripts reply with their key.
static ECHO: LazyLock<Script> = LazyLock::new(|| Script::of(&["return KEYS[1]"]));

/// A call that asks for its key.
#[derive(Debug)]
pub(crate) struct EchoCall {
    pub(crate) key: Vec<u8>,
    waiter: Option<Waiter<Value>>,
}

impl EchoCall {
    pub(crate) fn new(key: &[u8], waiter: Waiter<Value>) -> Self {
        Self { key: key.to_vec(), waiter: Some(waiter) }
    }
}

impl Item for EchoCall {
    fn deadline(&self) -> Instant {
        self.waiter.as_ref().map(Waiter::deadline).expect("it was not answered yet")
    }

    fn waits_until(&self) -> Option<Instant> {
        self.waiter.as_ref().and_then(Waiter::waits_until)
    }

    fn fail(mut self, failure: Failure) {
        Waiter::fail_where(&mut self.waiter, |_| true, |_| failure);
    }
}

impl Request for EchoCall {
    type Order = ();

    fn order(&self) {}

    fn shares_a_command(&self) -> bool {
        false
    }

    fn waits_until(&self) -> Option<Instant> {
        self.waiter.as_ref().map(Waiter::deadline)
    }

    fn fail_where(&mut self, which: impl Fn(Instant) -> bool, failure: impl FnMut(Instant) -> Failure) {
        Waiter::fail_where(&mut self.waiter, which, failure);
    }

    fn script(&self) -> Option<&'static Script> {
        Some(&ECHO)
    }

    fn wrong_type(&self) -> String {
        "a value of another type".to_owned()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Echo;

impl PerThread for Echo {
    fn threads() -> &'static LocalKey<ThreadMap<Self>> {
        thread_local! {
            static THREADS: ThreadMap<Echo> = const { ThreadMap::new() };
        }
        &THREADS
    }
}

impl Workload for Echo {
    type Item = EchoCall;
    type Request = EchoCall;
    type Buffers = ();

    fn begin(&self, (): &mut ()) {}

    fn add(&self, call: EchoCall, requests: &mut Vec<Planned<EchoCall>>, (): &mut ()) -> bool {
        requests.push(Planned::new(call));
        false
    }

    fn prepare(&self, _: &mut EchoCall, (): &mut (), _: &Shared) -> bool {
        true
    }

    fn write(&self, requests: &[Planned<EchoCall>], _: bool, (): &(), bytes: &mut Vec<u8>) -> usize {
        array(bytes, 4);
        for word in [b"EVALSHA", ECHO.sha().as_bytes(), b"1", &requests[0].request.key] {
            bulk(bytes, word);
        }
        1
    }

    fn on_reply(
        &self,
        requests: impl Iterator<Item = Planned<EchoCall>>,
        _: usize,
        value: Value,
        (): &mut (),
        _: &mut Replies<'_, EchoCall>,
    ) {
        for mut planned in requests {
            if let Some(waiter) = planned.request.waiter.take() {
                waiter.answer(Ok(value.clone()));
            }
        }
    }
}
