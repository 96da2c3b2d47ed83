//! `limit_conn`: how many requests of a zone run at the same time, and the rule that this makes.

use std::fmt::Write as _;

use super::place::{Place, Places};
use super::zone::{LISTED, Zone, plain};

/// First entry of the descriptors of such rules. A check of `limit_req` zones never meets them.
const KEY: &str = "conn_zone";

/// Lifetime of a slot that is never released. nginx has no such time.
const TTL: &str = "1m";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnLimit {
    pub(super) place: Place,
    zone: String,
    limit: u64,
}

/// A place that a zone limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConnUse {
    /// Place of its `limit_conn`, or of the directive that changes an inherited one.
    pub(super) place: Place,
    /// As people call the block: `location /`.
    level: String,
    pub(super) zone: String,
    pub(super) limit: u64,
    pub(super) is_dry_run: bool,
}

impl ConnLimit {
    /// Reads the arguments of a directive.
    pub(super) fn of(place: Place, arguments: &[String]) -> Result<Self, String> {
        let [zone, number] = arguments else { return Err("expected a zone and a number".to_owned()) };
        // nginx has no larger number.
        match number.parse() {
            Ok(limit @ 1..=65_535) => Ok(Self { place, zone: zone.clone(), limit }),
            _ => Err(format!("{number} is not a whole number from 1 to 65535")),
        }
    }

    /// This use in the block called `level`, at `place`.
    pub(super) fn used(&self, place: Place, level: &str, is_dry_run: bool) -> ConnUse {
        ConnUse { place, level: level.to_owned(), zone: self.zone.clone(), limit: self.limit, is_dry_run }
    }
}

/// Appends the rule of `zone`, with the number of its first use.
pub(super) fn write(zone: &Zone, uses: &[&ConnUse], places: &Places, out: &mut String) {
    let Some(first) = uses.first() else { return };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "  # {}: key {}", places.shown(zone.place), plain(&zone.key));
    for used in uses.iter().take(LISTED) {
        let at = places.shown(used.place);
        let level = plain(&used.level);
        let _ = writeln!(out, "  # {at}: {} at the same time in {level}", used.limit);
    }
    if let Some(more @ 1..) = uses.len().checked_sub(LISTED) {
        let _ = writeln!(out, "  # and in {}", tollgate_human_text::counted(more, "more place"));
    }
    let _ = writeln!(
        out,
        "  # nginx gives a place back when the request ends. Here its holder does (/v1/acquire, /v1/release),\n  # and \
         renews it before the ttl ends; docs/concurrency.md."
    );
    let limit = first.limit;
    let mut rule = vec![format!("rate_limit: {{algorithm: concurrency, limit: {limit}, ttl: {TTL}}}")];
    rule.extend(uses.iter().all(|used| used.is_dry_run).then(|| "shadow_mode: true".to_owned()));
    zone.write_rules(KEY, &rule, out);
}
