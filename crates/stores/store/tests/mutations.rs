//! The suite itself is tested: the model passes, and the suite fails for each known fault, by the law that it
//! breaks.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

mod faulty;

use faulty::{Faulty, StoreFault};
use tollgate_store::{ModelStore, suite};

const SLOTS: &str = "slots_are_as_the_model_has_them";
const SLOTS_AT_ONCE: &str = "holders_at_once_are_never_more_than_the_slots";
const BUCKETS: &str = "classes_that_share_a_bucket_are_as_the_model_has_them";
const HISTORIES: &str = "every_store_answers_as_the_model_does";

fn options() -> suite::Options {
    suite::Options { cases: 400, takes: 200, ..Default::default() }
}

#[test]
fn the_model_passes() {
    suite::run(&suite::Parked, ModelStore::default, &options());
}

#[test]
fn each_known_fault_turns_the_suite_red() {
    for (fault, law) in [
        (StoreFault::DeniedIsCharged, HISTORIES),
        (StoreFault::PeekCharges, HISTORIES),
        (StoreFault::GivesBackAboveFull, HISTORIES),
        (StoreFault::GivesBackNothing, HISTORIES),
        (StoreFault::BatchIsReversed, HISTORIES),
        (StoreFault::RepeatedKeysAreBlind, HISTORIES),
        (StoreFault::TogetherIsEach, HISTORIES),
        (StoreFault::TogetherKeepsTheFirst, HISTORIES),
        (StoreFault::TogetherStopsAtADenial, HISTORIES),
        (StoreFault::TimeNeverGoesBack, HISTORIES),
        (StoreFault::StepBackForgets, HISTORIES),
        (StoreFault::LongKeysAreCut, HISTORIES),
        (StoreFault::NulEndsAKey, HISTORIES),
        (StoreFault::ResetDoesNothing, HISTORIES),
        (StoreFault::ResetForgetsAll, HISTORIES),
        (StoreFault::InspectIsATake, HISTORIES),
        (StoreFault::EverythingIsTracked, HISTORIES),
        (StoreFault::VerdictsAreCleared, HISTORIES),
        (StoreFault::OneAnswerIsMissing, HISTORIES),
        (StoreFault::ReserveWaitsForNothing, HISTORIES),
        (StoreFault::ReserveWaitsForever, HISTORIES),
        (StoreFault::ReserveKeepsTheFirst, HISTORIES),
        (StoreFault::ChargeAsksFirst, HISTORIES),
        (StoreFault::PayAsksFirst, HISTORIES),
        (StoreFault::PayIsNeverDenied, HISTORIES),
        (StoreFault::PayDeniesWhatDoesNotFit, HISTORIES),
        (StoreFault::CheckTakesOne, HISTORIES),
        (StoreFault::DebtIsCut, HISTORIES),
        (StoreFault::FirstQuotaCountsAll, BUCKETS),
        (StoreFault::SlotsNeverLapse, SLOTS),
        (StoreFault::ReleaseFreesTheOldest, SLOTS),
        (StoreFault::RenewalTakesAnother, SLOTS),
        (StoreFault::ReadThenWrite, "callers_at_once_admit_exactly_the_limit"),
        (StoreFault::TogetherIsNotAtomic, "together_charges_all_or_nobody"),
        (StoreFault::ReserveIsNotAtomic, "reserving_at_once_promises_no_permit_twice"),
        (StoreFault::PayIsNotAtomic, "charges_at_once_are_all_counted"),
    ] {
        let found = suite::check(&suite::Parked, || Faulty::new(fault), &options());
        let failure = found.expect_err(&format!("{fault:?} must turn the suite red"));
        assert_eq!(failure.law, law, "{fault:?} is found by {failure}");
    }
}

/// Only the law of slots finds them: they pass every check before it, which takes long.
#[test]
fn each_known_fault_of_slots_at_once_turns_their_law_red() {
    for fault in [StoreFault::OneSlotTooMany, StoreFault::AcquireIsNotAtomic] {
        let found = suite::check_nodes(&suite::Parked, &[Faulty::new(fault)], &options());
        let failure = found.expect_err(&format!("{fault:?} must turn the suite red"));
        assert_eq!(failure.law, SLOTS_AT_ONCE, "{fault:?} is found by {failure}");
    }
}

#[test]
fn nodes_that_do_not_count_together_turn_the_suite_red() {
    let apart = [ModelStore::default(), ModelStore::default()];
    let failure =
        suite::check_nodes(&suite::Parked, &apart, &options()).expect_err("each has slots of its own");
    assert_eq!(failure.law, SLOTS_AT_ONCE, "{failure}");
}

#[test]
fn a_failing_history_is_shrunk_to_a_few_steps() {
    let failure = suite::check(&suite::Parked, || Faulty::new(StoreFault::PeekCharges), &options())
        .expect_err("peeks that charge are found");
    let (_, steps) = failure.details.split_once("steps: [").expect("it says the steps");
    let steps: usize = ["Take {", "Drain {"].iter().map(|step| steps.matches(step).count()).sum();
    assert!((1..=4).contains(&steps), "a few peeks, of dozens of steps: {failure}");
}
