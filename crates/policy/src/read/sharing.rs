//! Whether each limit of a rule can be counted where its rule wants it: by the store that is configured, and ahead of time where it
//! is leased.

use tollgate_core::{Algorithm, LeakyForm, Quota, Refill, Sharing};

use super::descriptor::RuleText;
use super::{Path, Reader};
use crate::tree::{Kind, Node, Pos};

const LEASABLE: &str = "cannot be leased; token_bucket (refill: continuous, full at first, without overdraft), leaky_bucket \
                        (form: meter) and fixed_window can; write one of them, or sharing: exact";

impl Reader<'_> {
    /// Looks at the limits that `node` says, which were read without a fault; several where it is a list.
    pub(super) fn check_sharing(&mut self, node: &Node, path: &Path<'_>, rule: &RuleText) {
        let items: Vec<&Node> = match &node.kind {
            Kind::List(items) => items.iter().map(AsRef::as_ref).collect(),
            _ => vec![node],
        };
        let is_list = matches!(node.kind, Kind::List(_));
        for (index, (node, limit)) in items.into_iter().zip(&rule.limits).enumerate() {
            let item = path.index(index);
            let path = if is_list { &item } else { path };
            let quota = &limit.quota;
            let name = quota.algorithm().name();
            if rule.sharing == Sharing::Leased && !is_leasable(quota) {
                let (pos, key) =
                    place(node, "sharing").or(place(node, "algorithm")).unwrap_or((node.pos, ""));
                self.complain(pos, path, key, format!("{name} {LEASABLE}"));
            } else if rule.sharing != Sharing::Local
                && let Err(why) = self.countable.check(quota)
            {
                let (pos, key) = place(node, "algorithm").unwrap_or((node.pos, ""));
                self.complain(pos, path, key, format!("{name}: {why}"));
            }
        }
    }

    fn complain(&mut self, pos: Pos, path: &Path<'_>, key: &str, message: String) {
        match key {
            "" => self.notes.fault(pos, path, message),
            key => self.notes.fault(pos, path.key(key), message),
        }
    }
}

/// Where `node` says `key`.
fn place(node: &Node, key: &'static str) -> Option<(Pos, &'static str)> {
    let Kind::Map(map) = &node.kind else { return None };
    map.entries.iter().find(|(known, _)| known.text == key).map(|(_, node)| (node.pos, key))
}

/// As the leases of a shared store can count it; numbers that are too small or too large to be worth it are counted centrally there.
fn is_leasable(quota: &Quota) -> bool {
    match *quota.algorithm() {
        Algorithm::TokenBucket { burst, initial, overdraft: 0, refill: Refill::Continuous } => {
            initial.is_none_or(|initial| initial == burst.unwrap_or(quota.limit()))
        }
        Algorithm::LeakyBucket { form: LeakyForm::Meter, .. } | Algorithm::FixedWindow { .. } => true,
        _ => false,
    }
}
