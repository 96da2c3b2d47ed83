//! Takes from several keys, all or nothing.
//!
//! memcached changes one item at a time, so this is: look at all keys; if `core` says that any take is denied, say so, and nothing was
//! changed. Else charge each key, all its takes or none, and if another caller was faster somewhere, give back what was charged.
//! What a limit denies is never admitted. Others may for a moment see permits taken that are given back (and be denied for it), never the
//! other way round.

use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, State, Timestamp};
use tollgate_store::{Key, StoreError, Take, Verdicts};

use crate::ask::{Answer, Op, take};
use crate::figures::add;
use crate::store::{Inner, Pending};

/// One key, and the places of its takes in the batch.
struct Group<'a> {
    key: Key<'a>,
    takes: Vec<usize>,
}

/// Charges the whole batch or nothing of it; held for as long as `hold` says.
pub(crate) async fn charge(
    inner: &Inner,
    batch: &[Take<'_>],
    hold: Option<Duration>,
    now: Timestamp,
    verdicts: &mut Verdicts,
) {
    if let Some(odd) = batch.iter().find(|take| !inner.can_count(take.quota)) {
        verdicts.extend(batch.iter().map(|_| Err(inner.unsupported(odd.quota))));
        return;
    }
    let groups = by_key(batch);
    let looks: Vec<_> =
        groups.iter().map(|group| inner.send(group.key, Op::Look, quota(batch, group), now)).collect();
    let mut states = Vec::with_capacity(groups.len());
    for look in looks {
        states.push(look.answer(inner).await.map(|answer| match answer {
            Answer::State(state) => state,
            _ => quota(batch, &groups[states.len()]).fresh(),
        }));
    }
    if states.iter().any(Result::is_err) {
        let errors = states.into_iter().map(|state| state.err().ok_or(())).collect();
        return tell_errors(inner, batch, &groups, errors, verdicts);
    }
    let mut states: Vec<State> = states.into_iter().flatten().collect();
    let foreseen = foresee(batch, &groups, &mut states, hold, now);
    let changes = batch.iter().any(|take| !take.cost.is_peek());
    if !changes || !foreseen.iter().all(Decision::is_admitted) {
        verdicts.extend(foreseen.into_iter().map(Ok));
        return;
    }
    let charges: Vec<_> = groups
        .iter()
        .map(|group| {
            let takes = group.takes.iter().map(|&at| (batch[at].quota.clone(), batch[at].cost)).collect();
            inner.send(group.key, Op::All { takes, hold }, quota(batch, group), now)
        })
        .collect();
    settle(inner, batch, &groups, charges, now, verdicts).await;
}

/// Waits for all charges; gives back what was charged where not all were.
async fn settle(
    inner: &Inner,
    batch: &[Take<'_>],
    groups: &[Group<'_>],
    charges: Vec<Pending>,
    now: Timestamp,
    verdicts: &mut Verdicts,
) {
    let mut outcomes = Vec::with_capacity(groups.len());
    for charge in charges {
        outcomes.push(charge.answer(inner).await);
    }
    let is_charged =
        |outcome: &Result<Answer, StoreError>| matches!(outcome, Ok(Answer::All { charged: true, .. }));
    let mut lost = vec![false; groups.len()];
    if !outcomes.iter().all(is_charged) {
        let back = groups.iter().zip(&outcomes).enumerate().filter(|(_, (_, outcome))| is_charged(outcome));
        let back: Vec<_> = back
            .map(|(index, (group, _))| {
                let cost =
                    group.takes.iter().fold(0_u64, |sum, &at| sum.saturating_add(batch[at].cost.permits()));
                (index, cost, inner.send(group.key, Op::GiveBack(Cost(cost)), quota(batch, group), now))
            })
            .collect();
        for (index, cost, pending) in back {
            if pending.answer(inner).await.is_err() {
                add(&inner.counters.left_counted, cost);
                lost[index] = true;
            }
        }
    }
    let has_failed = outcomes.iter().any(Result::is_err);
    let mut said: Vec<Option<Decision>> = vec![None; batch.len()];
    let mut errors = Vec::with_capacity(groups.len());
    for (index, (group, outcome)) in groups.iter().zip(outcomes).enumerate() {
        errors.push(match outcome {
            Ok(Answer::All { decisions, .. }) => {
                group.takes.iter().zip(decisions).for_each(|(&at, decision)| said[at] = Some(decision));
                if lost[index] { Ok(inner.silent()) } else { Err(()) }
            }
            Ok(_) => Err(()),
            Err(error) => Ok(error),
        });
    }
    if has_failed {
        return tell_errors(inner, batch, groups, errors, verdicts);
    }
    verdicts.extend(said.into_iter().map(|decision| decision.ok_or_else(|| inner.elsewhere())));
}

/// The takes by key, in the order of the batch.
fn by_key<'a>(batch: &[Take<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::with_capacity(batch.len());
    for (at, take) in batch.iter().enumerate() {
        match groups.iter_mut().find(|group| group.key == take.key) {
            Some(group) => group.takes.push(at),
            None => groups.push(Group { key: take.key, takes: vec![at] }),
        }
    }
    groups
}

fn quota<'a>(batch: &[Take<'a>], group: &Group<'_>) -> &'a Quota {
    batch[group.takes[0]].quota
}

/// What the takes would get one after another, if nobody else came.
fn foresee(
    batch: &[Take<'_>],
    groups: &[Group<'_>],
    states: &mut [State],
    hold: Option<Duration>,
    now: Timestamp,
) -> Vec<Decision> {
    let decide = |it: &Take<'_>| {
        let group = groups.iter().position(|group| group.key == it.key).unwrap_or_default();
        take(&mut states[group], it.quota, it.cost, hold, now)
    };
    batch.iter().map(decide).collect()
}

/// A batch that is not charged: `errors` has one of each key that failed; the others' takes hear that it was not theirs.
fn tell_errors(
    inner: &Inner,
    batch: &[Take<'_>],
    groups: &[Group<'_>],
    errors: Vec<Result<StoreError, ()>>,
    verdicts: &mut Verdicts,
) {
    let mut said: Vec<Option<StoreError>> = batch.iter().map(|_| None).collect();
    for (group, error) in groups.iter().zip(errors) {
        if let Ok(error) = error {
            for &at in &group.takes[1..] {
                said[at] = Some(inner.again(&error));
            }
            said[group.takes[0]] = Some(error);
        }
    }
    verdicts.extend(said.into_iter().map(|error| Err(error.unwrap_or_else(|| inner.elsewhere()))));
}
