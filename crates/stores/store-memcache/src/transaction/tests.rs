//! Races played through: several connections work on one key, in any order, and any of them may fail to
//! answer at any command.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::sync::oneshot::{self, Receiver, error::TryRecvError};
use tollgate_core::{Period, Quota};

use super::*;
use crate::protocol::CommandReply;
use crate::request::{Claim, Op};

const DEADLINE: Duration = Duration::from_millis(10);
const KEEP: Duration = Duration::from_secs(60);
const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

/// A memcached of one item: the few commands that are used, as its manual describes them.
#[derive(Debug, Default)]
struct Memcached {
    item: Option<(u32, String, u64)>,
    cas: u64,
}

impl Memcached {
    fn put(&mut self, flags: &str, data: &str) -> CommandReply {
        self.cas += 1;
        self.item = Some((flags.parse().expect("flags"), data.to_owned(), self.cas));
        CommandReply::Stored
    }

    /// Answers the first command of `text`, and returns the rest.
    fn answer<'t>(&mut self, text: &'t str) -> (CommandReply, &'t str) {
        let (line, mut rest) = text.split_once("\r\n").expect("a line");
        let words: Vec<_> = line.split(' ').collect();
        let mut data = || {
            let (data, after) = rest.split_once("\r\n").expect("data");
            assert_eq!(words[4], data.len().to_string());
            rest = after;
            data
        };
        let reply = match (words[0], self.item.clone()) {
            ("gets", None) => CommandReply::Missing,
            ("gets", Some((flags, data, cas))) => {
                CommandReply::Item { flags, cas, data: data.into_bytes().into() }
            }
            ("incr" | "decr" | "delete", None) => CommandReply::NotFound,
            ("delete", Some(_)) => {
                self.item = None;
                CommandReply::Deleted
            }
            (change, Some((flags, old, _))) if change == "incr" || change == "decr" => {
                let by: u64 = words[2].parse().expect("a number");
                match old.parse::<u64>() {
                    Err(_) => CommandReply::Error(
                        "CLIENT_ERROR cannot increment or decrement non-numeric value".into(),
                    ),
                    Ok(old) => {
                        let new =
                            if change == "incr" { old.wrapping_add(by) } else { old.saturating_sub(by) };
                        self.put(&flags.to_string(), &new.to_string());
                        CommandReply::Number(new)
                    }
                }
            }
            ("add", old) => {
                let data = data();
                if old.is_some() { CommandReply::NotStored } else { self.put(words[2], data) }
            }
            ("cas", old) => {
                let data = data();
                match old {
                    None => CommandReply::NotFound,
                    Some((_, _, cas)) if cas.to_string() == words[5] => self.put(words[2], data),
                    Some(_) => CommandReply::Exists,
                }
            }
            other => panic!("{other:?}"),
        };
        (reply, rest)
    }

    /// The count in the window of `now`; `None` where there is no window.
    fn count(&self, now: Timestamp) -> Option<u64> {
        let (flags, data, _) = self.item.as_ref()?;
        match value::read(*flags, data.as_bytes(), now)? {
            State::Word(word) => {
                let window = Window::from_word(word).filter(|window| window.end_ns > now.as_nanos());
                window.map(|window| window.count)
            }
            State::Wide(wide) => {
                let is_now = wide.cells[2] == now.as_nanos() / wide.cells[1];
                is_now.then_some(wide.cells[3])
            }
        }
    }
}

struct TransactionCaller {
    work: Transaction,
    answers: Vec<(Op, Receiver<Result<OpAnswer, Failure>>)>,
    is_done: bool,
}

fn ask(quota: &Quota, op: Op, now: Timestamp) -> (KeyRequest, Receiver<Result<OpAnswer, Failure>>) {
    let (reply, answer) = oneshot::channel();
    (
        KeyRequest {
            op,
            quota: quota.clone(),
            now,
            deadline: DEADLINE,
            claim: Arc::new(Claim::default()),
            reply,
        },
        answer,
    )
}

fn caller(quota: &Quota, ops: &[Op], now: Timestamp) -> TransactionCaller {
    let mut work = None;
    let mut answers = Vec::new();
    for op in ops {
        let (ask, answer) = ask(quota, op.clone(), now);
        answers.push((op.clone(), answer));
        match &mut work {
            None => work = Some(Transaction::new(b"item".to_vec().into(), ask, KEEP)),
            Some(work) => work.join(ask),
        }
    }
    TransactionCaller { work: work.expect("an op"), answers, is_done: false }
}

impl TransactionCaller {
    /// One round trip; `lost` is true if the answers to it are lost.
    fn trip(&mut self, memcached: &mut Memcached, lost: bool) {
        let mut out = Vec::new();
        let expected = self.work.send(&mut out);
        let text = String::from_utf8(out).expect("text");
        let mut rest = text.as_str();
        let mut replies = Vec::new();
        while !rest.is_empty() {
            let (reply, after) = memcached.answer(rest);
            replies.push(reply);
            rest = after;
        }
        assert_eq!(replies.len(), expected, "{text:?}");
        let why = std::io::Error::other("lost");
        self.is_done = match (expected, lost) {
            (0, _) => true,
            (_, true) => !self.work.interrupted(&why),
            (_, false) => self.work.receive(&replies) == Next::Done,
        };
    }

    fn finish(&mut self, memcached: &mut Memcached) {
        for _ in 0..100 {
            if self.is_done {
                return;
            }
            self.trip(memcached, false);
        }
        panic!("it comes to no end: {:?}", self.work);
    }
}

fn window(limit: u64, align: Align) -> Quota {
    let minute = Period::Span(Duration::from_secs(60));
    Quota::new(limit, minute, Algorithm::FixedWindow { align }).expect("a quota")
}

fn quotas() -> impl Strategy<Value = Quota> {
    let minute = Period::Span(Duration::from_secs(60));
    let sliding = Quota::new(5, minute, Algorithm::SlidingWindowCounter).expect("a quota");
    prop_oneof![Just(window(5, Align::Calendar)), Just(window(5, Align::FirstHit)), Just(sliding),]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let cost = || (1..3_u64).prop_map(Cost);
    let all = prop::collection::vec(cost(), 1..3);
    let op = prop_oneof![
        4 => cost().prop_map(Op::Take),
        2 => all.prop_map(|costs| Op::All { takes: costs.into_iter().map(|it| (window(5, Align::Calendar), it)).collect(), hold: None }),
        1 => Just(Op::Inspect),
    ];
    prop::collection::vec(op, 1..4)
}

/// Payments for finished work, and the checks before it.
fn payments() -> impl Strategy<Value = Op> {
    let cost = prop_oneof![1..4_u64, 600..900_u64, Just(MOST_AT_ONCE + 1)].prop_map(Cost);
    (cost, 0..4_u8).prop_map(|(cost, kind)| match kind {
        0 => Op::Pay(Cost(0)),
        1 => Op::Pay(cost),
        _ => Op::Charge(cost),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Nobody resets or gives back here, so the admitted permits never pass the limit, and the count is never
    /// less than those.
    #[test]
    fn whatever_is_lost_the_count_covers_what_was_admitted(
        quota in quotas(),
        callers in prop::collection::vec(ops(), 2..5),
        order in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 0..40),
        ended in any::<bool>(),
    ) {
        let mut memcached = Memcached::default();
        if ended {
            // The previous window, used up.
            let mut before = caller(&quota, &[Op::Charge(Cost(9))], Timestamp::from_unix_seconds(1_699_990_000));
            before.finish(&mut memcached);
        }
        let callers = callers.iter().map(|ops| {
            let ops: Vec<_> = ops.iter().map(|op| match op {
                Op::All { takes, .. } => Op::All { takes: takes.iter().map(|(_, cost)| (quota.clone(), *cost)).collect(), hold: None },
                op => op.clone(),
            }).collect();
            caller(&quota, &ops, NOON)
        });
        let mut callers: Vec<_> = callers.collect();
        let mut lost_any = false;
        for (index, chance) in order {
            let caller = index.get_mut(&mut callers);
            if !caller.is_done {
                lost_any |= chance == 0;
                caller.trip(&mut memcached, chance == 0);
            }
        }
        callers.iter_mut().for_each(|caller| caller.finish(&mut memcached));
        let mut admitted = 0;
        let mut hits = 0;
        let mut silent = false;
        let mut asked = 0;
        for (op, mut answer) in callers.into_iter().flat_map(|caller| caller.answers) {
            asked += match &op {
                Op::Take(cost) => cost.permits(),
                Op::All { takes, .. } => takes.iter().map(|(_, cost)| cost.permits()).sum(),
                _ => 0,
            };
            match (op, answer.try_recv()) {
                (Op::Take(cost), Ok(Ok(OpAnswer::Decision(decision)))) => {
                    hits += cost.permits();
                    admitted += if decision.is_admitted() { cost.permits() } else { 0 };
                }
                (Op::All { takes, .. }, Ok(Ok(OpAnswer::All { charged, .. }))) => {
                    let sum: u64 = takes.iter().map(|(_, cost)| cost.permits()).sum();
                    hits += if charged { sum } else { 0 };
                    admitted += if charged { sum } else { 0 };
                }
                (Op::Inspect, Ok(Ok(OpAnswer::Inspection(_)))) => {}
                (_, Ok(Err(Failure::Silent { .. } | Failure::NotSent { .. }))) => silent = true,
                (op, other) => prop_assert!(false, "{op:?}: {other:?}"),
            }
        }
        prop_assert!(admitted <= 5, "{admitted} of 5 were admitted");
        let count = memcached.count(NOON).unwrap_or(0);
        prop_assert!(count >= admitted, "{count} are counted, {admitted} were admitted");
        prop_assert!(count <= asked, "{count} are counted, {asked} were asked for");
        if !lost_any {
            prop_assert!(!silent);
            let want = if *quota.algorithm() == Algorithm::SlidingWindowCounter { admitted } else { hits };
            prop_assert_eq!(count, want, "where nothing is lost the count is exact");
        }
    }

    /// Work that was done is counted, even if another caller was faster, and in each form of the count.
    #[test]
    fn charges_are_all_counted_in_every_race(
        quota in quotas(),
        before in prop::sample::select(vec![
            0, 3, MOST_IN_NUMBER - 1_000, MOST_IN_NUMBER - 3, MOST_IN_NUMBER, MOST_IN_NUMBER + 7,
        ]),
        callers in prop::collection::vec(prop::collection::vec(payments(), 1..4), 2..6),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..60),
    ) {
        let mut memcached = Memcached::default();
        caller(&quota, &[Op::Charge(Cost(before))], NOON).finish(&mut memcached);
        let mut callers: Vec<_> = callers.iter().map(|ops| caller(&quota, ops, NOON)).collect();
        for index in order {
            let caller = index.get_mut(&mut callers);
            if !caller.is_done {
                caller.trip(&mut memcached, false);
            }
        }
        callers.iter_mut().for_each(|caller| caller.finish(&mut memcached));
        let mut want = before;
        for (op, mut answer) in callers.into_iter().flat_map(|caller| caller.answers) {
            let Ok(Ok(OpAnswer::Decision(decision))) = answer.try_recv() else {
                return Err(TestCaseError::fail(format!("{op:?} has no answer")));
            };
            match op {
                Op::Charge(cost) => {
                    prop_assert!(decision.is_admitted());
                    want += cost.permits();
                }
                Op::Pay(cost) => want += cost.permits(),
                op => prop_assert!(false, "{op:?}"),
            }
        }
        prop_assert_eq!(memcached.count(NOON).unwrap_or(0), want);
    }

    #[test]
    fn giving_back_never_goes_below_zero_nor_into_another_window(
        align in prop_oneof![Just(Align::Calendar), Just(Align::FirstHit)],
        takes in 0..4_u64,
        back in 0..10_u64,
        order in prop::collection::vec(any::<bool>(), 0..20),
    ) {
        let quota = window(100, align);
        let mut memcached = Memcached::default();
        caller(&quota, &[Op::Take(Cost(7))], NOON).finish(&mut memcached);
        let mut giver = caller(&quota, &[Op::GiveBack(Cost(back))], NOON);
        let mut taker = caller(&quota, &vec![Op::Take(Cost::ONE); takes.max(1) as usize], NOON);
        for is_giver in order {
            let one = if is_giver { &mut giver } else { &mut taker };
            if !one.is_done {
                one.trip(&mut memcached, false);
            }
        }
        giver.finish(&mut memcached);
        taker.finish(&mut memcached);
        let low = (7 + takes.max(1)).saturating_sub(back);
        let high = 7_u64.saturating_sub(back) + takes.max(1);
        let count = memcached.count(NOON).unwrap_or(0);
        prop_assert!((low..=high).contains(&count), "{count}, not {low} to {high}");
    }
}

/// Any answer may be lost: a request that may have been counted is not sent again, and the caller gets an
/// error that says so.
#[test]
fn what_may_have_been_counted_is_never_sent_again() {
    let minute = Period::Span(Duration::from_secs(60));
    let sliding = Quota::new(50, minute, Algorithm::SlidingWindowCounter).expect("a quota");
    for quota in [window(50, Align::Calendar), window(50, Align::FirstHit), sliding] {
        for (before, answered) in
            [0, 7].into_iter().flat_map(|before| (0..4).map(move |trips| (before, trips)))
        {
            let mut memcached = Memcached::default();
            caller(&quota, &[Op::Charge(Cost(before))], NOON).finish(&mut memcached);
            let mut one = caller(&quota, &[Op::Take(Cost(3))], NOON);
            for trip in 0..=answered {
                if !one.is_done {
                    one.trip(&mut memcached, trip == answered);
                }
            }
            one.finish(&mut memcached);
            let answer = one.answers[0].1.try_recv();
            let taken = memcached.count(NOON).unwrap_or(0) - before;
            let is_right = match &answer {
                Ok(Ok(OpAnswer::Decision(_))) => taken == 3,
                Ok(Err(Failure::Silent { .. })) => taken <= 3,
                _ => false,
            };
            assert!(is_right, "after {answered} answers: {taken} are counted, answered {answer:?}");
        }
    }
}

#[test]
fn a_hit_of_a_window_in_force_is_one_command() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    caller(&quota, &[Op::Take(Cost::ONE)], NOON).finish(&mut memcached);
    let mut second = caller(&quota, &[Op::Take(Cost::ONE), Op::Take(Cost(2))], NOON);
    let mut out = Vec::new();
    assert_eq!(second.work.send(&mut out), 1);
    assert_eq!(out, b"incr item 3\r\n");
}

#[test]
fn a_window_that_began_in_the_future_keeps_its_end() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    caller(&quota, &[Op::Take(Cost(4))], NOON + Duration::from_secs(600)).finish(&mut memcached);
    let mut now = caller(&quota, &[Op::Take(Cost::ONE), Op::Take(Cost::ONE)], NOON);
    now.finish(&mut memcached);
    let admitted = now.answers.iter_mut().map(|(_, answer)| match answer.try_recv() {
        Ok(Ok(OpAnswer::Decision(decision))) => decision.is_admitted(),
        other => panic!("{other:?}"),
    });
    assert_eq!(admitted.collect::<Vec<_>>(), [true, false], "the clock stepped back: nothing is given away");
}

#[test]
fn what_was_denied_in_a_window_is_not_taken_off_the_next() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    caller(&quota, &[Op::Take(Cost(4))], NOON).finish(&mut memcached);
    let all = Op::All { takes: vec![(quota.clone(), Cost(3))], hold: None };
    let mut batch = caller(&quota, &[all], NOON);
    batch.trip(&mut memcached, false);
    assert_eq!(memcached.count(NOON), Some(7), "it is denied, and still counted");
    let later = NOON + Duration::from_secs(60);
    caller(&quota, &[Op::Take(Cost(5))], later).finish(&mut memcached);
    batch.finish(&mut memcached);
    assert_eq!(memcached.count(later), Some(5));
}

/// The data of `item`, as memcached shows it.
fn data(memcached: &Memcached) -> &str {
    memcached.item.as_ref().map_or("", |(_, data, _)| data)
}

#[test]
fn denied_hits_above_the_most_that_a_number_holds_are_taken_off_again() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    caller(&quota, &[Op::Take(Cost(u64::MAX))], NOON).finish(&mut memcached);
    for _ in 0..10 {
        caller(&quota, &[Op::Take(Cost(MOST_AT_ONCE))], NOON).finish(&mut memcached);
        let number = number(data(&memcached).as_bytes()).expect("a number of ours");
        assert_eq!(number.count, MOST_IN_NUMBER);
    }
}

#[test]
fn a_count_that_no_number_holds_is_text_and_every_charge_is_in_it() {
    for align in [Align::Calendar, Align::FirstHit] {
        let quota = window(5, align);
        let mut memcached = Memcached::default();
        let mut counted = 0;
        for (cost, is_text) in [
            (MOST_IN_NUMBER - 1, false),
            (1, false),
            (1, true), // by `incr`, and rewritten
            (1, true),
            (MOST_AT_ONCE + 1, true),
            (1 << 52, true),
        ] {
            caller(&quota, &[Op::Charge(Cost(cost))], NOON).finish(&mut memcached);
            counted += cost;
            assert_eq!(memcached.count(NOON), Some(counted), "{align:?}, after {cost}");
            assert_eq!(data(&memcached).starts_with("fixed_window "), is_text, "{}", data(&memcached));
        }
        for _ in 0..2 {
            caller(&quota, &[Op::Charge(Cost(u64::MAX))], NOON).finish(&mut memcached);
            assert_eq!(memcached.count(NOON), Some(tollgate_core::MAX_COUNT), "the most that is counted");
        }
        let later = NOON + Duration::from_secs(61);
        caller(&quota, &[Op::Take(Cost(2))], later).finish(&mut memcached);
        assert_eq!(memcached.count(later), Some(2), "the next window is a number again");
        assert!(!data(&memcached).starts_with("fixed_window "));
    }
}

#[test]
fn a_number_that_is_above_the_most_ends_when_its_window_does() {
    for align in [Align::Calendar, Align::FirstHit] {
        let quota = window(5, align);
        let mut memcached = Memcached::default();
        caller(&quota, &[Op::Take(Cost(MOST_IN_NUMBER))], NOON).finish(&mut memcached);
        let end = Timestamp::from_nanos(end_of(&memcached, NOON));
        caller(&quota, &[Op::Take(Cost(3))], end).finish(&mut memcached);
        assert_eq!(memcached.count(end), Some(3), "{align:?}");
    }
}

#[test]
fn what_is_given_back_makes_a_number_of_the_text_again() {
    let quota = window(5, Align::FirstHit);
    let mut memcached = Memcached::default();
    caller(&quota, &[Op::Take(Cost::ONE)], NOON).finish(&mut memcached);
    let end = end_of(&memcached, NOON);
    caller(&quota, &[Op::Charge(Cost(MOST_IN_NUMBER + 8))], NOON).finish(&mut memcached);
    caller(&quota, &[Op::GiveBack(Cost(8))], NOON).finish(&mut memcached);
    assert_eq!(memcached.count(NOON), Some(MOST_IN_NUMBER + 1));
    caller(&quota, &[Op::GiveBack(Cost(3))], NOON).finish(&mut memcached);
    assert_eq!(memcached.count(NOON), Some(MOST_IN_NUMBER - 2));
    assert!(!data(&memcached).starts_with("fixed_window "));
    let now = end_of(&memcached, NOON);
    assert!((end..end + 20_000_000).contains(&now), "its end is rounded once, up to 20 ms");
}

/// The end of the window that is kept.
fn end_of(memcached: &Memcached, now: Timestamp) -> u64 {
    let (flags, data, _) = memcached.item.as_ref().expect("an item");
    value::window(*flags, data.as_bytes(), now).expect("a window").end_ns
}

#[test]
fn who_gives_up_before_anything_was_changed_is_not_charged() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    let (first, _answer) = ask(&quota, Op::Take(Cost(3)), NOON);
    let (second, mut answer) = ask(&quota, Op::Take(Cost::ONE), NOON);
    assert!(first.claim.give_up(), "nothing was sent yet");
    let claim = second.claim.clone();
    let mut work = Transaction::new(b"item".to_vec().into(), first, KEEP);
    work.join(second);
    let mut both = TransactionCaller { work, answers: Vec::new(), is_done: false };
    both.trip(&mut memcached, false); // there is nothing to count in
    assert!(!claim.give_up(), "it may have been taken");
    assert_eq!(answer.try_recv().expect_err("not yet"), TryRecvError::Empty);
    both.finish(&mut memcached);
    assert_eq!(memcached.count(NOON), Some(1));
    assert!(matches!(answer.try_recv(), Ok(Ok(OpAnswer::Decision(_)))));
}

#[test]
fn a_server_without_memory_fails_the_take_and_nothing_is_taken() {
    let quota = window(5, Align::Calendar);
    let mut memcached = Memcached::default();
    let mut one = caller(&quota, &[Op::Take(Cost::ONE)], NOON);
    one.trip(&mut memcached, false);
    let mut out = Vec::new();
    assert_eq!(one.work.send(&mut out), 1, "add");
    let reply = CommandReply::Error("SERVER_ERROR out of memory storing object".into());
    assert_eq!(one.work.receive(&[reply]), Next::Done);
    let answer = one.answers[0].1.try_recv();
    assert!(matches!(answer, Ok(Err(Failure::Rejected(why))) if why.contains("out of memory")));
}
