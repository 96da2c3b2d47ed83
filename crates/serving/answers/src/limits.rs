//! The limits of an answer, as header fields and problems list them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tollgate_core::RetryAfter;
use tollgate_headers::{BLOCKED, DEGRADED, EXCESS, LimitState, most_restrictive};
use tollgate_limiter::{Answer, Degraded, DescriptorAnswer, Kind as Shown, Limit, LimitAnswer, Rule};

/// All limits that can bind the request, in the order of its descriptors and their rules. Not those in shadow
/// beside others.
#[must_use]
pub fn limits<'a>(answer: &'a Answer<'_>) -> Limits<'a> {
    let mut descriptors = answer.descriptors();
    if descriptors.len() == 1 && !answer.has_several_limits() {
        let only = descriptors.next();
        return Limits(LimitStates::One(only.and_then(|only| state(&only, answer.is_admitted()))));
    }
    let mut all = Vec::new();
    for (at, descriptor) in descriptors.enumerate() {
        let before = all.len();
        let shown = state(&descriptor, answer.is_admitted());
        let others = answer.limits(at).filter_map(|it| match it.is_shown {
            true => shown,
            false => other_state(&descriptor, &it, answer.is_admitted()),
        });
        all.extend(others);
        if all.len() == before {
            all.extend(shown);
        }
    }
    Limits(LimitStates::Many(all))
}

/// See [`limits`]. The one limit of the usual answer needs no list.
#[derive(Debug)]
pub struct Limits<'a>(LimitStates<'a>);

#[derive(Debug)]
enum LimitStates<'a> {
    One(Option<LimitState<'a>>),
    Many(Vec<LimitState<'a>>),
}

impl<'a> Limits<'a> {
    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[LimitState<'a>] {
        match &self.0 {
            LimitStates::One(limit) => limit.as_slice(),
            LimitStates::Many(limits) => limits,
        }
    }
}

/// The name by which clients know a limit: its own, else its rule's, else the rule's path.
pub(crate) fn name<'a>(rule: &'a Rule, limit: &'a Limit) -> &'a str {
    [&limit.name, &rule.name].into_iter().find(|name| !name.is_empty()).unwrap_or(&rule.path)
}

/// The limit that binds `descriptor`. While the request passes, no limit makes it wait: a rule in shadow mode
/// and a soft one may have denied without effect.
fn state<'a>(descriptor: &DescriptorAnswer<'a>, passes: bool) -> Option<LimitState<'a>> {
    if descriptor.kind == Shown::Blocked {
        let mut blocked = LimitState::new(BLOCKED, Duration::ZERO, descriptor.decision.as_ref()?);
        if passes {
            blocked.retry_after = RetryAfter::Now;
        }
        return Some(blocked);
    }
    let limit = descriptor.limit?;
    Some(LimitState {
        name: descriptor.rule.map_or(&limit.name, |rule| name(rule, limit)),
        limit: limit.requests_per_unit,
        burst: limit.burst(),
        window: limit.period,
        remaining: descriptor.remaining(),
        reset_after: descriptor.reset_after(),
        retry_after: if passes || descriptor.is_admitted() {
            RetryAfter::Now
        } else {
            descriptor.retry_after()
        },
        is_unknown: descriptor.degraded == Some(Degraded::Denied),
    })
}

/// A limit of `descriptor` that does not bind it.
fn other_state<'a>(
    descriptor: &DescriptorAnswer<'a>,
    it: &LimitAnswer<'a>,
    passes: bool,
) -> Option<LimitState<'a>> {
    let is_now = passes || descriptor.is_admitted();
    Some(LimitState {
        name: name(descriptor.rule?, it.limit),
        limit: it.limit.requests_per_unit,
        burst: it.limit.burst(),
        window: it.limit.period,
        remaining: it.remaining,
        reset_after: it.reset_after(),
        retry_after: if is_now { RetryAfter::Now } else { it.retry_after() },
        is_unknown: it.degraded == Some(Degraded::Denied),
    })
}

/// The place of the descriptor that the answer as a whole shows: of those that deny the one with the longest
/// wait, of all others the one with the fewest permits left. `None` when no limit binds any, and none is
/// denied.
#[must_use]
pub fn shown(answer: &Answer<'_>) -> Option<usize> {
    // A denial without a limit is permanent: no wait ends it.
    let is_final = |it: &DescriptorAnswer<'_>| it.limit.is_none() && !it.is_admitted();
    if answer.descriptors().len() == 1 {
        return answer.descriptor(0).filter(|only| only.limit.is_some() || is_final(only)).map(|_| 0);
    }
    if !answer.is_admitted()
        && let Some(place) = answer.descriptors().position(|it| is_final(&it))
    {
        return Some(place);
    }
    let passes = answer.is_admitted();
    let states = answer.descriptors().enumerate().filter_map(|(at, it)| Some((at, state(&it, passes)?)));
    let (places, states): (Vec<_>, Vec<_>) = states.unzip();
    let chosen = most_restrictive(&states)?;
    places.get(states.iter().position(|state| std::ptr::eq(state, chosen))?).copied()
}

/// Marks a reply whose decision was made without the store.
pub fn mark_degraded(degraded: Option<Degraded>, fields: &mut HeaderMap) {
    if let Some(degraded) = degraded {
        fields.insert(DEGRADED, HeaderValue::from_static(degraded.name()));
    }
}

/// Marks a reply to a request that passes above a limit, within its excess.
pub fn mark_excess(answer: &Answer<'_>, fields: &mut HeaderMap) {
    if answer.is_in_excess() {
        fields.insert(EXCESS, HeaderValue::from_static("true"));
    }
}
