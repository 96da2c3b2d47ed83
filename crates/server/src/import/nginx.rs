//! The limits of nginx as rules: `limit_req_zone` and `limit_req`, `limit_conn_zone` and `limit_conn`.
//!
//! A zone with the burst of its use is a leaky bucket. nginx admits `burst` requests above the rate, so the
//! bucket holds one more; those above the rate wait their turn, unless `nodelay` or `delay` says otherwise.
//! A zone of `limit_conn` is a rule with slots, which nginx itself cannot ask: it gives a place back by
//! itself, where a holder of a slot releases it. Not here: nginx's grammar (`directives`), which files there
//! are (`files`), the text of a rule (`zone`, `conn`).

mod conn;
mod directives;
mod files;
mod place;
mod walk;
mod zone;

use std::collections::BTreeMap;
use std::path::Path;

use tollgate_human_text::one_of;

use conn::ConnUse;
use directives::Unreadable;
use files::Files;
use place::LeftOut;
use walk::Walk;
use zone::{Use, Zone};

pub(crate) use files::{MAX_BYTES, text_of};

/// What became of a configuration.
#[derive(Debug)]
pub(crate) struct Imported {
    /// The rule file.
    pub(crate) rules: Result<Rules, NoRules>,
    /// What was not taken over, by its place.
    pub(crate) left_out: Vec<LeftOut>,
}

/// A rule file that was made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The rule file.
    pub(crate) text: String,
    /// How many limits it has.
    pub(crate) number: usize,
}

/// Why there are no rules.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoRules {
    #[error("{name}:{source}; is this an nginx configuration?")]
    Unreadable { name: String, source: Unreadable },
    #[error(
        "{name} is empty: looked for limit_req_zone and limit_req in an nginx configuration; give the main file, such \
         as /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    Empty { name: String },
    #[error(
        "{name} has no limit_req_zone and no limit_req, which the rules are made from; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoLimit { name: String },
    #[error(
        "{name} has limit_req, and no valid limit_req_zone defines {zones}; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoZone { name: String, zones: String },
    #[error(
        "{name} has limit_req_zone, and no valid limit_req uses {zones}; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoUse { name: String, zones: String },
}

/// The limits of `text`, which was read from `path` or, without one, from stdin, as rules of `domain`.
pub(crate) fn import(path: Option<&Path>, text: String, domain: &str) -> Imported {
    let name = path.map_or_else(|| "-".to_owned(), |path| path.display().to_string());
    let is_empty = text.trim().is_empty();
    let (files, (first, text)) = Files::around(path, &name, text);
    let mut walk = Walk::new(files);
    let rules = match walk.read(&first, &text) {
        Err(source) => Err(NoRules::Unreadable { name: first, source }),
        Ok(()) if is_empty => Err(NoRules::Empty { name }),
        Ok(()) => rules(&mut walk, &name, domain),
    };
    Imported { rules, left_out: walk.left_out() }
}

fn rules(walk: &mut Walk, name: &str, domain: &str) -> Result<Rules, NoRules> {
    let (zones, uses) = (std::mem::take(&mut walk.zones), std::mem::take(&mut walk.uses));
    let mut by_name: BTreeMap<&str, &Zone> = BTreeMap::new();
    let mut defined: Vec<&Zone> = Vec::new();
    for zone in &zones {
        if let Some(first) = by_name.get(zone.name.as_str()) {
            let first = walk.places.shown(first.place);
            walk.leave_out(zone.place, format!("zone {} is already defined in {first}", zone.name));
        } else {
            by_name.insert(&zone.name, zone);
            defined.push(zone);
        }
    }
    let mut used: BTreeMap<&str, Vec<&Use>> = BTreeMap::new();
    for it in &uses {
        if by_name.contains_key(it.zone.as_str()) {
            used.entry(&it.zone).or_default().push(it);
        } else {
            walk.leave_out(it.place, format!("zone {} is not defined in this configuration", it.zone));
        }
    }
    let mut written: Vec<(&Zone, Vec<&Use>)> = Vec::new();
    for zone in &defined {
        match used.remove(zone.name.as_str()) {
            Some(uses) => written.push((zone, uses)),
            None => {
                let why = format!("zone {} is not used by any limit_req", zone.name);
                walk.leave_out(zone.place, why);
            }
        }
    }
    let conns = conns(walk, &by_name);
    if written.is_empty() && conns.is_empty() {
        let name = name.to_owned();
        let names = |all: Vec<&str>| format!("zone {}", one_of(&all));
        return Err(match (defined.is_empty(), uses.is_empty()) {
            (true, true) => NoRules::NoLimit { name },
            (true, false) => {
                let mut all: Vec<&str> = uses.iter().map(|it| it.zone.as_str()).collect();
                all.sort_unstable();
                all.dedup();
                NoRules::NoZone { name, zones: names(all) }
            }
            _ => NoRules::NoUse { name, zones: names(defined.iter().map(|it| it.name.as_str()).collect()) },
        });
    }
    for (zone, uses) in &written {
        report_zone(walk, zone, uses);
    }
    let status_of = |uses: &[&Use]| uses.first().and_then(|it| it.status);
    let first = written.first().and_then(|(_, uses)| status_of(uses));
    let is_common = written.iter().all(|(_, uses)| status_of(uses) == first);
    let mut text = head(name, domain, first.filter(|_| is_common), is_common);
    for (zone, uses) in &written {
        zone.write(
            uses,
            (!is_common).then(|| status_of(uses).unwrap_or(zone::STATUS)),
            &walk.places,
            &mut text,
        );
    }
    for (zone, uses) in &conns {
        conn::write(zone, &uses.iter().collect::<Vec<_>>(), &walk.places, &mut text);
    }
    Ok(Rules { text, number: written.len() + conns.len() })
}

/// The zones of `limit_conn` that are used, and where.
fn conns(walk: &mut Walk, others: &BTreeMap<&str, &Zone>) -> Vec<(Zone, Vec<ConnUse>)> {
    let mut written: Vec<(Zone, Vec<ConnUse>)> = Vec::new();
    for zone in std::mem::take(&mut walk.conn_zones) {
        let first = written.iter().map(|(zone, _)| zone).find(|first| first.name == zone.name);
        match first.or_else(|| others.get(zone.name.as_str()).copied()) {
            None => written.push((zone, Vec::new())),
            Some(first) => {
                let first = walk.places.shown(first.place);
                walk.leave_out(zone.place, format!("zone {} is already defined in {first}", zone.name));
            }
        }
    }
    for it in std::mem::take(&mut walk.conn_uses) {
        match written.iter_mut().find(|(zone, _)| zone.name == it.zone) {
            Some((_, uses)) => uses.push(it),
            None => {
                walk.leave_out(it.place, format!("zone {} is not defined in this configuration", it.zone));
            }
        }
    }
    for (zone, uses) in &written {
        let Some((first, others)) = uses.split_first() else {
            walk.leave_out(zone.place, format!("zone {} is not used by any limit_conn", zone.name));
            continue;
        };
        let at = walk.places.shown(first.place);
        for other in others.iter().filter(|other| other.limit != first.limit) {
            let (name, limit) = (&zone.name, first.limit);
            let why = format!("zone {name} has the number of {at} here too, since a rule has one: {limit}");
            walk.leave_out(other.place, why);
        }
        if uses.iter().any(|it| !it.is_dry_run) {
            for it in uses.iter().filter(|it| it.is_dry_run) {
                let why = format!(
                    "limit_conn_dry_run: the rule of zone {} denies here too, as elsewhere",
                    zone.name
                );
                walk.leave_out(it.place, why);
            }
        }
    }
    written.retain(|(_, uses)| !uses.is_empty());
    written
}

/// Reports what one rule cannot say of all uses of its zone, and where its key comes from.
fn report_zone(walk: &mut Walk, zone: &Zone, uses: &[&Use]) {
    let Some((first, others)) = uses.split_first() else { return };
    let at = walk.places.shown(first.place);
    for other in others {
        let name = &zone.name;
        if other.pace != first.pace {
            let why =
                format!("zone {name} has the burst of {at} here too, since a rule has one: {}", first.pace);
            walk.leave_out(other.place, why);
        }
        if other.status != first.status {
            let status = first.status.unwrap_or(zone::STATUS);
            let why = format!(
                "zone {name} denies with the status of {at} here too, since a rule has one: {status}"
            );
            walk.leave_out(other.place, why);
        }
    }
    // A rule that only counts would protect no place, so one place that denies decides.
    if uses.iter().any(|it| !it.is_dry_run) {
        for it in uses.iter().filter(|it| it.is_dry_run) {
            let why =
                format!("limit_req_dry_run: the rule of zone {} denies here too, as elsewhere", zone.name);
            walk.leave_out(it.place, why);
        }
    }
    for key in &zone.keys {
        if let Some(made) = walk.variables.get(&key.variable) {
            let mut why = format!(
                "{} makes the key of zone {}: keep it in nginx, which sends {}=${}",
                made.what, zone.name, key.entry, key.variable
            );
            if made.has_binary_address {
                why.push_str(
                    "; write $remote_addr for $binary_remote_addr there, whose bytes a URL cannot have",
                );
            }
            let place = made.place;
            walk.leave_out(place, why);
        }
    }
    if zone.may_be_empty_in_parts() {
        let why = format!(
            "zone {} does not limit a request for which all of {} are empty, which its rule does; leave the \
             descriptor out then",
            zone.name, zone.key
        );
        walk.leave_out(zone.place, why);
    }
}

/// The beginning of the rule file, up to its descriptors.
fn head(name: &str, domain: &str, status: Option<u16>, is_common: bool) -> String {
    let name = tollgate_human_text::clip(name);
    let mut text = format!(
        "# Imported from {name} by `tollgate import nginx`.
#
# Each zone is a rule. For each zone that limits a request, nginx sends a descriptor with the entries that the
# rule lists: the name of the zone first, then the parts of its key. docs/coming-from.md has the configuration.
# A place without a limit_req of its own has those of the place around it; one with its own has only those.
domain: {}
# As in nginx: a request that one zone denies is not charged to the others.
charge: together
",
        zone::quoted(domain)
    );
    match status {
        Some(status) => text.push_str(&format!("response: {{status: {status}}}\n")),
        None if is_common => text
            .push_str("# nginx denies with 503 unless limit_req_status says otherwise, Tollgate with 429.\n"),
        None => {}
    }
    text.push_str("descriptors:\n");
    text
}

#[cfg(test)]
mod tests;
