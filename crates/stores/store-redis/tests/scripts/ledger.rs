//! The script is held to the ledger: random calls on a real server, with a clock handed in, have the same
//! replies and leave the same state.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Align, LeakyForm, Period, Quota, Refill};
use tollgate_lease::{LeaseRequest, Ledger, LedgerCall, LedgerReply, NodeEntry, Op, Terms};
use tollgate_store_redis::internals::{LedgerJob, LedgerReplyError, ScriptCall, decode, encode, pack};
use tollgate_testkit::redis::{Options, Redis, RedisConnection};

use crate::direct::value;

const KEY: &[u8] = b"tollgate:{shop|user=ann|minute}|leased";
/// Far in the future, so that nothing expires meanwhile.
const START_US: u64 = 2_524_608_000_000_000;

/// One call, drawn before the state of the ledger is known.
#[derive(Clone, Debug)]
struct Drawn {
    terms: usize,
    op: u8,
    node: u64,
    /// Differences to the plausible numbers.
    odds: [u8; 3],
    size: u64,
    times: u64,
    step: i64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let size = prop_oneof![0_u64..4, 1_u64..200, 1_u64..100_000, Just(1_u64 << 50)];
    let step = prop_oneof![
        6 => 0_i64..1_000,
        6 => 0_i64..700_000,
        2 => 0_i64..3_000_000,
        1 => -500_000_i64..0,
        1 => -300_000_000_i64..0,
        1 => 0_i64..4_000_000_000,
    ];
    let terms = prop_oneof![3 => Just(0_usize), 1 => Just(1)];
    (terms, 0_u8..10, 0_u64..4, any::<[u8; 3]>(), size, 1_u64..40, step).prop_map(
        |(terms, op, node, odds, size, times, step)| Drawn { terms, op, node, odds, size, times, step },
    )
}

fn quotas() -> Vec<[Quota; 2]> {
    let second = Duration::from_secs(1);
    let minute = Duration::from_secs(60);
    let quota = |limit, period, algorithm| {
        Quota::new(limit, Period::Span(period), algorithm).expect("a quota that can be")
    };
    let bucket = |limit, period, burst| {
        let refill = Refill::Continuous;
        let burst = Some(burst);
        quota(limit, period, Algorithm::TokenBucket { burst, initial: None, overdraft: 0, refill })
    };
    let leaky = |limit, capacity| {
        let capacity = Some(capacity);
        quota(limit, second, Algorithm::LeakyBucket { capacity, form: LeakyForm::Meter })
    };
    let window = |limit, align| quota(limit, second, Algorithm::FixedWindow { align });
    vec![
        [bucket(2_000, second, 500), bucket(3_000, second, 700)],
        [bucket(100, second, 100), bucket(7, minute, 3)],
        [bucket(1_000_000, second, 50_000_000), bucket(999_983, minute, 1_000)],
        [leaky(50, 50), leaky(50, 1)],
        [window(1_000, Align::FirstHit), window(10, Align::FirstHit)],
        [window(1_000, Align::Calendar), bucket(500, second, 100)],
    ]
}

/// The call that was drawn, adjusted to the state of the ledger: mostly a plausible one, sometimes late,
/// repeated or from nowhere.
fn call(drawn: &Drawn, ledger: &Ledger, now_us: u64) -> LedgerJob {
    let [late, hoards, lies] = drawn.odds;
    let cost = drawn.size;
    let op = match drawn.op {
        0..=4 => {
            let node = (1 << 52) + drawn.node;
            let none = NodeEntry { seq: 0, held: 0, spent: 0, epoch: 0 };
            let known = ledger.entries.get(&node).copied().unwrap_or(none);
            let held = if hoards < 10 { known.held + 1 } else { known.held * u64::from(hoards) / 255 };
            let spends = if lies < 20 { drawn.size } else { (known.held - known.held.min(held)) * 2 / 3 };
            let seq = if late < 25 { known.seq } else { known.seq + 1 };
            let need = drawn.times.min(drawn.size);
            let least = if hoards % 3 == 0 { drawn.size } else { need.min(1) };
            let want = drawn.size;
            let spent = known.spent + spends;
            Op::Lease(LeaseRequest { node, seq, held, spent, want, need, least })
        }
        5 => Op::Take { cost, times: drawn.times },
        6 => Op::Try { cost, times: drawn.times },
        7 => Op::GiveBack { cost },
        8 if hoards < 160 => Op::Charge { cost: if lies < 64 { 1 << 53 } else { cost } },
        8 => Op::Peek,
        _ if lies < 20 => return LedgerJob::Reset,
        _ => Op::Take { cost: 1, times: 1 },
    };
    let window_ends_us = if late < 10 { now_us } else { (now_us / 1_000_000 + 1) * 1_000_000 };
    LedgerJob::Call(LedgerCall { op, window_ends_us })
}

fn run(client: &mut RedisConnection, call: &ScriptCall) -> Result<LedgerReply, LedgerReplyError> {
    let mut words = vec![b"EVAL".to_vec(), call.script.source().into(), b"1".to_vec()];
    words.extend(call.keys.iter().chain(&call.args).cloned());
    decode(&value(client.command(&words).expect("an answer")))
}

/// The stored ledger; that of an unseen key where none is stored.
fn kept(client: &mut RedisConnection) -> Ledger {
    let fields = client.command(&[b"HGETALL".as_slice(), KEY]).expect("an answer");
    let mut ledger = Ledger::default();
    let mut beyond = [0; 2];
    for pair in fields.array().chunks(2) {
        let numbers: Vec<u64> = pair[1].text().split(' ').map(|word| word.parse().expect("whole")).collect();
        match (pair[0].text().as_str(), numbers.as_slice()) {
            ("beyond", &[first, second, 0, 0, _]) => beyond = [first, second],
            ("ledger", numbers) => {
                let [interval, taken, out, out_before, at_us, ends_us, rest @ ..] =
                    *<&[u64; 10]>::try_from(numbers).expect("ten");
                let [window_ends_us, crowded_until_us, crowd, epoch] = rest;
                ledger = Ledger {
                    interval,
                    taken,
                    out,
                    out_before,
                    at_us,
                    ends_us,
                    window_ends_us,
                    crowded_until_us,
                    crowd,
                    epoch,
                    entries: ledger.entries,
                    ..Ledger::default()
                };
            }
            (node, &[seq, held, spent, epoch]) => {
                let entry = NodeEntry { seq, held, spent, epoch };
                ledger.entries.insert(node.parse().expect("a number"), entry);
            }
            other => panic!("{other:?}"),
        }
    }
    if ledger.window_ends_us > 0 {
        ledger.charged = beyond[0];
    } else {
        [ledger.dry_until_us, ledger.dry_per_us] = beyond;
    }
    ledger
}

fn both_agree(
    client: &mut RedisConnection,
    quotas: &[Quota; 2],
    drawn: &[Drawn],
) -> Result<(), TestCaseError> {
    let terms = quotas.each_ref().map(|quota| Terms::of(quota).expect("a quota that can be leased"));
    client.command(&[b"DEL".as_slice(), KEY]).expect("an answer");
    let mut ledger = Ledger::default();
    let mut now_us = START_US;
    for drawn in drawn {
        now_us = now_us.checked_add_signed(drawn.step).expect("far from both ends");
        let terms = &terms[drawn.terms];
        let job = call(drawn, &ledger, now_us);
        let got = run(client, &encode(KEY.to_vec(), pack(terms), job, Some(now_us)));
        let want = match job {
            LedgerJob::Call(call) => ledger.apply(terms, call, now_us),
            LedgerJob::Reset => {
                let reply = ledger.apply(terms, LedgerCall { op: Op::Peek, window_ends_us: 0 }, now_us);
                ledger = Ledger::default();
                reply
            }
        };
        prop_assert_eq!(got, Ok(want), "{:?} at {}", job, now_us);
        let is_over = terms.per_us() == 0 && want.rejected && want.ends_us == 0;
        if is_over {
            ledger = kept(client); // no window was begun: what is left of the old one may be forgotten or not
            continue;
        }
        prop_assert_eq!(&kept(client), &ledger, "after {:?} at {}", job, now_us);
        if !ledger.is_fresh() {
            let expires = client.command(&[b"PEXPIRETIME".as_slice(), KEY]).expect("an answer").int() as u64;
            prop_assert!(expires * 1_000 >= ledger.forget_at_us(terms));
            prop_assert!((expires - 1) * 1_000 <= ledger.forget_at_us(terms) + 1_000);
        }
    }
    Ok(())
}

#[test]
fn the_script_answers_and_keeps_what_the_ledger_does() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let mut client = redis.client().expect("it answers");
    for quotas in quotas() {
        let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        let client = std::cell::RefCell::new(&mut client);
        runner
            .run(&proptest::collection::vec(drawn(), 1..60), |drawn| {
                both_agree(&mut client.borrow_mut(), &quotas, &drawn)
            })
            .unwrap_or_else(|error| panic!("{quotas:?}: {error}"));
    }
}

#[test]
fn on_the_servers_clock_a_key_lives_as_long_as_it_matters() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let mut client = redis.client().expect("it answers");
    let quota = Quota::token_bucket(1_000, Duration::from_secs(1)).expect("a quota");
    let terms = Terms::of(&quota).expect("leased");
    let request = LeaseRequest { node: 7, seq: 1, held: 0, spent: 0, want: 100, need: 1, least: 1 };
    let lease = LedgerJob::Call(LedgerCall { op: Op::Lease(request), window_ends_us: 0 });
    let reply = run(&mut client, &encode(KEY.to_vec(), pack(&terms), lease, None)).expect("a reply");
    assert_eq!((reply.granted, reply.active), (100, 1));
    let expires_ms = client.command(&[b"PEXPIRETIME".as_slice(), KEY]).expect("an answer").int() as u64;
    // To the epoch's end, one epoch more, and until the permits taken are back.
    let want_us = reply.ends_us + terms.tau_us() + 100_000;
    assert!((want_us..=want_us + 1_000).contains(&(expires_ms * 1_000)), "{expires_ms} {want_us}");
}

#[test]
fn what_is_not_ours_is_named_and_left_alone() {
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let mut client = redis.client().expect("it answers");
    let quota = Quota::token_bucket(1_000, Duration::from_secs(1)).expect("a quota");
    let peek = LedgerJob::Call(LedgerCall { op: Op::Take { cost: 1, times: 1 }, window_ends_us: 0 });
    let call = encode(KEY.to_vec(), pack(&Terms::of(&quota).expect("leased")), peek, None);
    for foreign in [
        &[b"SET".as_slice(), KEY, b"1"] as &[&[u8]],
        &[b"HSET", KEY, b"name", b"ann"],
        &[b"HSET", KEY, b"ledger", b"lost"],
        &[b"HSET", KEY, b"ledger", b"1 2 0 0 0 0 0 0 0 0", b"beyond", b"lost"],
    ] {
        client.command(&[b"DEL".as_slice(), KEY]).expect("an answer");
        client.command(foreign).expect("an answer");
        let before = client.command(&[b"DUMP".as_slice(), KEY]).expect("an answer");
        assert_eq!(run(&mut client, &call), Err(LedgerReplyError::Foreign), "{foreign:?}");
        assert_eq!(client.command(&[b"DUMP".as_slice(), KEY]).expect("an answer"), before);
    }
}
