//! From a request to the takes that it needs: which rules, which limits, which counters.

use tollgate_core::{Cost, Outcome};
use tollgate_policy::{Domain, Entry, Limit, Override, Rule};
use tollgate_store::{Origin, Payment, Sharing};

use crate::interventions::InForce;
use crate::request::{Descriptor, MAX_HITS, Request, RequestError};
use crate::scratch::{Item, Scratch};
use crate::settings::LimiterSettings;
use tollgate_observe::{Kind, LimitRef, Status};

/// Kind of the hits of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hits {
    /// The limit decides: wanted, or used already if the limit is post-paid.
    Asked,
    /// Used already, whatever the limit is.
    Consumed,
    /// Held ahead of time, until the use is known.
    Held,
}

impl Hits {
    #[inline]
    const fn payment(self, is_post_paid: bool) -> Payment {
        match self {
            Self::Asked if is_post_paid => Payment::After,
            Self::Asked | Self::Held => Payment::Ahead,
            Self::Consumed => Payment::Consumed,
        }
    }
}

/// Settings by which a request is charged.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) hits: Hits,
    /// All of its limits, or none.
    pub(crate) is_together: bool,
}

/// Fills `scratch` with a status for each descriptor and an item for each limit that is to be asked; those
/// that cannot deny the request last where all others are charged together.
#[inline(always)]
pub(crate) fn plan(
    domain: &Domain,
    request: &Request<'_>,
    settings: &LimiterSettings,
    how: How,
    scratch: &mut Scratch,
) -> Result<(), RequestError> {
    plan_with(domain, request, settings, how, None, scratch, |_| None)
}

/// As [`plan`], where operators intervene: an intervention that `intervention` finds for a descriptor
/// precedes its rule. Limits of a `candidate`, a version that is rolled out, are charged once more on
/// counters of its own.
#[inline(always)]
pub(crate) fn plan_with(
    domain: &Domain,
    request: &Request<'_>,
    settings: &LimiterSettings,
    how: How,
    candidate: Option<u64>,
    scratch: &mut Scratch,
    intervention: impl Fn(&[Entry<'_>]) -> Option<InForce>,
) -> Result<(), RequestError> {
    let first = domain.rules().first().map_or(0, |rule| rule.index);
    let mut any_replaces = false;
    let mut any_denied = false;
    let mut queues = false;
    let mut several = false;
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        let rule = domain.find(descriptor.entries);
        let mut status = status(rule, first, descriptor, request.hits, settings);
        // Slots of a rule are taken in another way.
        if rule.is_none_or(|rule| rule.slots.is_none())
            && let Some(found) = intervention(descriptor.entries)
        {
            found.apply(&mut status);
            // It is not limited, nor are the rules that its own rule replaces.
            any_replaces |= rule.is_some_and(|rule| !rule.replaces.is_empty());
        }
        let next = DescriptorPlan {
            descriptor: index as u32,
            rule: status.rule.unwrap_or(0),
            // A limit that came with the request may share the rule's counter, so it is kept where that is.
            sharing: rule.map_or(Sharing::Exact, |rule| rule.sharing),
            origin: rule.map_or(Origin::Request, |_| Origin::Rule),
            hits: status.hits,
            how: how.hits,
            soft: status.is_quota || status.is_shadow_rule,
        };
        match (status.kind, rule) {
            (Kind::Overridden, _) => override_limit(&next, domain, rule, descriptor, scratch)?,
            (Kind::Limited | Kind::Unlimited, Some(rule)) => {
                any_replaces |= !rule.replaces.is_empty();
                queues |= rule.max_wait.is_some();
                several |= rule.limits.len() > 1;
                for limit in 0..rule.limits.len() {
                    let place = LimitRef::Rule(limit as u32);
                    let of_rule = &rule.limits[limit];
                    next.push(place, Some(of_rule), of_rule.post_paid, scratch, |keys| {
                        rule.write_key(limit, domain.name(), descriptor.entries, keys);
                    });
                    if let Some(version) = candidate
                        && !status.is_shadow_rule
                    {
                        push_alone(version, scratch);
                    }
                }
            }
            (Kind::Free, Some(rule)) if rule.slots.is_some() => {
                return Err(RequestError::NeedsHolder { rule: rule.path.clone() });
            }
            _ => {}
        }
        any_denied |= status.outcome == Outcome::Deny;
        scratch.statuses.push(status);
    }
    (scratch.queues, scratch.several) = (queues, several);
    if any_replaces {
        replace(domain, settings, scratch);
    }
    if any_denied && how.is_together {
        charge_nothing_if_denied(&mut *scratch);
    }
    if how.is_together {
        put_in_order(scratch);
    }
    Ok(())
}

/// As [`plan`] does for limits that are all charged together.
#[cold]
pub(crate) fn make_together(scratch: &mut Scratch) {
    charge_nothing_if_denied(scratch);
    put_in_order(scratch);
}

/// Drops all items if a rule denies the request whatever they say: then no limit that is charged together is
/// charged. Items for hits that were used already stay.
#[cold]
fn charge_nothing_if_denied(scratch: &mut Scratch) {
    let denies =
        |status: &Status| status.outcome == Outcome::Deny && !status.is_quota && !status.is_shadow_rule;
    if scratch.statuses.iter().any(denies) {
        scratch.items.retain(|item| item.payment.is_after());
    }
}

/// Orders the items: hits used already, then the items that are charged together, then those whose denial
/// does not deny the request.
#[cold]
fn put_in_order(scratch: &mut Scratch) {
    let Scratch { items, statuses, .. } = scratch;
    if statuses.iter().filter(|status| status.is_quota).count() == 1 {
        // A request's only soft limit denies it like a hard one, unless it is in shadow mode.
        let only = statuses.iter().position(|status| status.is_quota && !status.is_shadow_rule);
        items
            .iter_mut()
            .filter(|item| Some(item.descriptor as usize) == only && !item.shadow)
            .for_each(|item| item.soft = false);
    }
    items.sort_by_key(|item| (!item.payment.is_after(), item.soft));
}

#[inline]
pub(crate) fn status(
    rule: Option<&Rule>,
    first: usize,
    descriptor: &Descriptor<'_>,
    hits: u64,
    settings: &LimiterSettings,
) -> Status {
    let mut outcome = Outcome::Admit;
    let kind = match rule {
        _ if descriptor.limit.is_some() => Kind::Overridden,
        None => Kind::Free,
        Some(rule) if rule.unlimited => Kind::Unlimited,
        Some(rule) if rule.denies => {
            outcome = Outcome::Deny;
            Kind::Limited
        }
        Some(rule) if rule.limits.is_empty() => Kind::Free,
        Some(_) => Kind::Limited,
    };
    let is_soft = kind != Kind::Overridden && rule.is_some_and(|rule| rule.quota_mode);
    Status {
        rule: rule.map(|rule| (rule.index - first) as u32),
        kind,
        limit: None,
        decision: None,
        remaining: if kind == Kind::Unlimited { u64::MAX } else { 0 },
        hits: descriptor.hits.unwrap_or(hits).min(MAX_HITS),
        outcome,
        is_quota: is_soft || settings.quota_mode,
        is_shadow_rule: kind == Kind::Limited && rule.is_some_and(|rule| rule.shadow_mode),
        is_shadowed: false,
        is_denied_in_trial: false,
        is_denied_alone: false,
        is_charged: false,
        in_excess: false,
        excess: 0,
        degraded: None,
    }
}

/// Drops rules whose name another rule of the request replaces. A dropped rule still replaces others.
#[cold]
fn replace(domain: &Domain, settings: &LimiterSettings, scratch: &mut Scratch) {
    let Scratch { items, statuses, .. } = scratch;
    let rule_of = |status: &Status| match (status.kind, status.rule) {
        (Kind::Limited | Kind::Unlimited | Kind::Replaced | Kind::Allowed, Some(place)) => {
            Some(&domain.rules()[place as usize])
        }
        _ => None,
    };
    for index in 0..statuses.len() {
        let Some(rule) = rule_of(&statuses[index]).filter(|rule| !rule.name.is_empty()) else { continue };
        let is_replaced = statuses.iter().enumerate().any(|(other, status)| {
            other != index && rule_of(status).is_some_and(|other| other.replaces.contains(&rule.name))
        });
        if is_replaced {
            if statuses[index].kind == Kind::Allowed {
                continue; // it is not limited anyhow
            }
            statuses[index].kind = Kind::Replaced;
            statuses[index].remaining = 0;
            statuses[index].outcome = Outcome::Admit;
            statuses[index].is_quota = settings.quota_mode;
        }
    }
    items.retain(|item| statuses[item.descriptor as usize].kind != Kind::Replaced);
}

/// The data that all items of one descriptor have in common.
struct DescriptorPlan {
    descriptor: u32,
    rule: u32,
    sharing: Sharing,
    origin: Origin,
    hits: u64,
    how: Hits,
    soft: bool,
}

impl DescriptorPlan {
    #[inline]
    fn push(
        &self,
        limit: LimitRef,
        of_rule: Option<&Limit>,
        is_post_paid: bool,
        scratch: &mut Scratch,
        write_key: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = scratch.keys.len() as u32;
        write_key(&mut scratch.keys);
        let key = start..scratch.keys.len() as u32;
        let Self { descriptor, rule, sharing, origin, hits, how, soft } = *self;
        let (excess, each, shadow) = of_rule.map_or((0, 1, false), |it| (it.excess, it.cost, it.shadow));
        let cost = Cost(if each == 1 { hits } else { hits.saturating_mul(each) });
        let soft = soft || shadow;
        scratch.items.push(Item {
            descriptor,
            rule,
            limit,
            excess,
            key,
            sharing,
            origin,
            cost,
            payment: how.payment(is_post_paid),
            soft,
            shadow,
            alone: false,
        });
    }
}

/// Charges the last item once more, on a counter that only this version uses. Nodes with the previous version
/// refill the shared counter, so it does not show what the version alone would deny.
#[cold]
fn push_alone(version: u64, scratch: &mut Scratch) {
    let Some(item) = scratch.items.last().cloned() else { return };
    if item.shadow || item.sharing == Sharing::Local {
        return; // it binds nothing, or no other node refills it
    }
    let start = scratch.keys.len() as u32;
    scratch.keys.extend_from_within(item.key.start as usize..item.key.end as usize);
    tollgate_policy::write_version(version, &mut scratch.keys);
    let key = start..scratch.keys.len() as u32;
    scratch.items.push(Item { key, soft: true, shadow: true, alone: true, ..item });
}

#[cold]
fn override_limit(
    next: &DescriptorPlan,
    domain: &Domain,
    rule: Option<&Rule>,
    descriptor: &Descriptor<'_>,
    scratch: &mut Scratch,
) -> Result<(), RequestError> {
    let Some(given) = descriptor.limit else { return Ok(()) };
    let given = Override::new(given.requests_per_unit, given.unit).map_err(RequestError::Override)?;
    // The rule knows how its hits are reported; the request only brings another number.
    let is_post_paid = rule.is_some_and(|rule| rule.limits.iter().any(|it| it.post_paid && !it.shadow));
    next.push(LimitRef::Override(scratch.overrides.len() as u32), None, is_post_paid, scratch, |keys| {
        given.write_key(rule, domain.name(), descriptor.entries, keys);
    });
    scratch.overrides.push(given);
    Ok(())
}
