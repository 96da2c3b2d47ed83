//! The limits of nginx as rules: `limit_req_zone` and `limit_req`, `limit_conn_zone` and `limit_conn`.
//!
//! A zone with the burst of its use becomes a leaky bucket. nginx admits `burst` requests above the rate, so
//! the bucket holds one more. Requests that nginx delays wait at Tollgate (`on_limit: queue`): a subrequest
//! cannot be delayed in another way. A zone of `limit_conn` becomes a rule with slots. nginx itself cannot
//! use it: nginx frees a place by itself, whereas a holder of a slot releases it.
//!
//! Every limit that has another effect than in nginx, and every limit that needs more than the subrequest of
//! docs/proxies.md, is in [`Imported::left_out`]. Not here: nginx's grammar (`directives`), which files there
//! are (`files`), the text of a rule (`zone`, `conn`), tables of addresses (`tables`), how values get from
//! nginx to Tollgate (`key`, `asking`).

mod asking;
mod conn;
mod directives;
mod files;
mod key;
mod place;
mod tables;
mod walk;
mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tollgate_human_text::{one_of, show_duration};

use conn::ConnUse;
use files::Files;
use key::Way;
use tables::Obstacle;
use walk::Walk;
use zone::{Use, Zone};

pub use directives::Unreadable;
pub use files::{MAX_BYTES, text_of};
pub use place::LeftOut;

/// Result of an import: the rule file or the reason why there is none, and everything left out.
#[derive(Debug)]
pub struct Imported {
    /// The rule file.
    pub rules: Result<Rules, NoRules>,
    /// Directives that were not taken over with the same effect, by their places.
    pub left_out: Vec<LeftOut>,
}

/// A rule file that was made.
#[derive(Debug, PartialEq, Eq)]
pub struct Rules {
    /// The rule file.
    pub text: String,
    /// Number of limits in the file.
    pub number: usize,
}

/// Why there are no rules.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRules {
    /// The file is not a configuration of nginx: nginx would reject it too.
    #[error("{name}:{cause}; is this an nginx configuration?")]
    Unreadable {
        /// Path of the file in which the error is; `-` for stdin.
        name: String,
        /// The line and the reason.
        cause: Unreadable,
    },
    /// There is no text.
    #[error(
        "{name} is empty: looked for limit_req_zone and limit_req in an nginx configuration; give the main file, such \
         as /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    Empty {
        /// Path of the file as given; `-` for stdin.
        name: String,
    },
    /// There are neither zones nor uses of zones.
    #[error(
        "{name} has no limit_req_zone and no limit_req, which the rules are made from; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoLimit {
        /// Path of the file as given; `-` for stdin.
        name: String,
    },
    /// Zones are used that are not defined.
    #[error(
        "{name} has limit_req, and no valid limit_req_zone defines {zones}; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoZone {
        /// Path of the file as given; `-` for stdin.
        name: String,
        /// Names of the undefined zones, as the message shows them.
        zones: String,
    },
    /// Zones are defined that are not used.
    #[error(
        "{name} has limit_req_zone, and no valid limit_req uses {zones}; give the main file, such as \
         /etc/nginx/nginx.conf, or what `nginx -T` prints"
    )]
    NoUse {
        /// Path of the file as given; `-` for stdin.
        name: String,
        /// Names of the unused zones, as the message shows them.
        zones: String,
    },
}

/// The limits of `text`, which was read from `path` or, without one, from stdin, as rules of `domain`.
pub fn import(path: Option<&Path>, text: String, domain: &str) -> Imported {
    let name = path.map_or_else(|| "-".to_owned(), |path| path.display().to_string());
    let is_empty = text.trim().is_empty();
    let (files, (first, text)) = Files::around(path, &name, text);
    let mut walk = Walk::new(files);
    let rules = match walk.read(&first, &text) {
        Err(cause) => Err(NoRules::Unreadable { name: first, cause }),
        Ok(()) if is_empty => Err(NoRules::Empty { name }),
        Ok(()) => rules(&mut walk, &name, domain),
    };
    Imported { rules, left_out: walk.left_out() }
}

fn rules(walk: &mut Walk, name: &str, domain: &str) -> Result<Rules, NoRules> {
    let mut zones = std::mem::take(&mut walk.zones);
    let uses = std::mem::take(&mut walk.uses);
    let names: BTreeSet<&str> = uses.iter().map(|it| it.zone.as_str()).collect();
    for zone in zones.iter_mut().filter(|zone| names.contains(zone.name.as_str())) {
        find_clients(walk, zone);
    }
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
    let mut zones_at: BTreeMap<usize, usize> = BTreeMap::new();
    for it in written.iter().flat_map(|(_, uses)| uses) {
        *zones_at.entry(it.group).or_default() += 1;
    }
    for (zone, uses) in &written {
        report_zone(walk, zone, uses);
        let is_alone = uses.iter().all(|it| zones_at.get(&it.group) == Some(&1));
        report_waits(walk, zone, uses, is_alone);
    }
    let status_of = |uses: &[&Use]| uses.first().and_then(|it| it.status);
    let first = written.first().and_then(|(_, uses)| status_of(uses));
    let is_common = written.iter().all(|(_, uses)| status_of(uses) == first);
    let mut asking = String::new();
    asking::write(&written, domain, &walk.places, &mut asking);
    let mut text = head(name, domain, &asking, first.filter(|_| is_common), is_common);
    for (zone, uses) in &written {
        zone.write(
            uses,
            (!is_common).then(|| status_of(uses).unwrap_or(zone::STATUS)),
            &walk.places,
            &mut text,
        );
    }
    for (zone, uses) in &conns {
        report_keys(walk, zone);
        conn::write(zone, &uses.iter().collect::<Vec<_>>(), &walk.places, &mut text);
    }
    Ok(Rules { text, number: written.len() + conns.len() })
}

/// The zones of `limit_conn` that are used, each with its uses.
fn conns(walk: &mut Walk, others: &BTreeMap<&str, &Zone>) -> Vec<(Zone, Vec<ConnUse>)> {
    let mut written: Vec<(Zone, Vec<ConnUse>)> = Vec::new();
    let names: BTreeSet<String> = walk.conn_uses.iter().map(|it| it.zone.clone()).collect();
    for mut zone in std::mem::take(&mut walk.conn_zones) {
        if names.contains(&zone.name) {
            find_clients(walk, &mut zone);
        }
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
        let why = format!(
            "limit_conn {} {}: auth_request cannot give a place back; keep limit_conn in nginx, or let the \
             application acquire and release, which the rule is for (docs/concurrency.md)",
            zone.name, first.limit
        );
        walk.leave_out(first.place, why);
        for other in others.iter().filter(|other| other.limit != first.limit) {
            let name = &zone.name;
            let limit = first.limit;
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

/// Reports the differences between the uses of a zone that one rule cannot express, and where its key comes
/// from.
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
    // A rule that only counts would protect no place. So the rule denies if a single place denies.
    if uses.iter().any(|it| !it.is_dry_run) {
        for it in uses.iter().filter(|it| it.is_dry_run) {
            let why =
                format!("limit_req_dry_run: the rule of zone {} denies here too, as elsewhere", zone.name);
            walk.leave_out(it.place, why);
        }
    }
    report_keys(walk, zone);
}

/// Finds the clients that a zone limits, if tables make its key.
fn find_clients(walk: &Walk, zone: &mut Zone) {
    match zone.only_variable().and_then(|name| tables::clients(&walk.variables, name)) {
        None => {}
        Some(Ok(clients)) => zone.clients = Some(clients),
        Some(Err(obstacle)) => zone.obstacle = Some(obstacle),
    }
}

/// Reports how nginx must send the parts of a zone's key: text of a client is never a part of a URL.
fn report_keys(walk: &mut Walk, zone: &Zone) {
    for key in zone.entries() {
        if key.way() == Way::Url {
            continue;
        }
        let line = asking::sent(&key);
        let parameter = asking::parameter(&key);
        let made = walk.variables.get(&key.variable);
        let why = match made {
            None => format!(
                "a client writes ${} in the key of zone {}, so it must not be part of a URL: send it by `{line}` and \
                 {parameter}, as the rule file says",
                key.variable, zone.name
            ),
            Some(made) => {
                let binary = match made.has_binary_address {
                    true => {
                        "; write $remote_addr for $binary_remote_addr there, whose bytes a field cannot have"
                    }
                    false => "",
                };
                let because = match &zone.obstacle {
                    Some(Obstacle { what, .. }) => format!(", and {what}"),
                    None => String::new(),
                };
                format!(
                    "{} makes the key of zone {}{because}: keep it in nginx, which sends it by `{line}` and \
                     {parameter}, as the rule file says{binary}",
                    made.what, zone.name
                )
            }
        };
        let obstacle = zone.obstacle.as_ref().and_then(|obstacle| obstacle.place);
        let place = obstacle.or(made.map(|made| made.place)).unwrap_or(zone.place);
        walk.leave_out(place, why);
    }
}

/// Reports the conditions under which requests wait as in nginx.
fn report_waits(walk: &mut Walk, zone: &Zone, uses: &[&Use], is_alone: bool) {
    let (Some(first), Some(wait)) = (uses.first(), zone.wait_of(uses)) else { return };
    let name = &zone.name;
    let mut why = format!(
        "a request of zone {name} waits for its turn at Tollgate, up to {}: where nginx asks, write `{}`, or it takes \
         a wait for an outage",
        show_duration(wait),
        asking::read_timeout(wait)
    );
    if let Some(longer) = zone.wait(first.pace).filter(|longer| *longer > wait) {
        why.push_str(&format!(
            "; nginx itself has requests wait up to {}, a rule does not",
            show_duration(longer)
        ));
    }
    if !is_alone {
        why.push_str("; while it waits, it is not charged to the other zones of its place, and the shortest of their waits is the longest");
    }
    walk.leave_out(first.place, why);
}

/// The beginning of the rule file, up to its descriptors.
fn head(name: &str, domain: &str, asking: &str, status: Option<u16>, is_common: bool) -> String {
    let name = tollgate_human_text::clip(name);
    let mut text = format!(
        "# Imported from {name} by `tollgate import nginx`.
#
# Each zone is a rule. For each zone that limits a request, nginx sends a descriptor with the entries that the
# rule lists: the name of the zone first, then the parts of its key. A place without a limit_req of its own has
# those of the place around it; one with its own has only those.
#
# The lines below replace those of the configuration in docs/proxies.md: proxy_pass and those after it belong in
# the location that asks, set in the limited location, map beside the servers. What a client writes is sent in
# a field of its own and never in the URL, where it could change the question.
{asking}#
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
