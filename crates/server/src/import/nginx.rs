//! The limits of nginx as rules: `limit_req_zone` and `limit_req`.
//!
//! A zone with the burst of its use is a leaky bucket. nginx admits `burst` requests above the rate, so the
//! bucket holds one more; those above the rate wait their turn, unless `nodelay` or `delay` says otherwise.
//! `limit_conn` limits concurrent requests, which no rule can; each is reported with its line. Not here:
//! nginx's grammar (`directives`).

mod directives;
mod zone;

use std::collections::BTreeMap;

use super::{Imported, LeftOut};
use directives::{Directive, directives};
use zone::{Pace, Use, Zone};

/// Why a text cannot be read as nginx does.
pub(crate) use directives::Unreadable;

/// What is taken over from a text.
#[derive(Debug, Default)]
struct Import {
    zones: Vec<Zone>,
    /// Uses of zones, in the order of the lines.
    uses: Vec<Use>,
    /// Of `limit_req_status`.
    status: Option<u16>,
    /// The files that the text includes are in it.
    is_whole: bool,
    left_out: Vec<LeftOut>,
}

/// The limits of `text`, which is called `name`, as rules of `domain`.
///
/// # Errors
/// [`Unreadable`]: a quote is not closed.
pub(crate) fn import(name: &str, text: &str, domain: &str) -> Result<Imported, Unreadable> {
    // What `nginx -T` prints has a line for each file.
    let mut import = Import { is_whole: text.contains("# configuration file "), ..Import::default() };
    for directive in directives(text)? {
        import.take(&directive);
    }
    Ok(import.finish(name, domain))
}

impl Import {
    fn leave_out(&mut self, line: usize, why: impl Into<String>) {
        self.left_out.push(LeftOut { line, why: why.into() });
    }

    fn take(&mut self, directive: &Directive) {
        let line = directive.line;
        let Some((name, arguments)) = directive.words.split_first() else { return };
        let said = directive.words.join(" ");
        match name.as_str() {
            "limit_req_zone" => match Zone::of(line, arguments) {
                Ok(zone) => {
                    if zone.is_synced {
                        self.leave_out(
                            line,
                            format!("sync of {said}: nodes share counters with --store instead"),
                        );
                    }
                    self.zones.push(zone);
                }
                Err(why) => self.leave_out(line, format!("{said}: {why}")),
            },
            "limit_req" => match Use::of(line, arguments) {
                Ok(used) => self.uses.push(used),
                Err(why) => self.leave_out(line, format!("{said}: {why}")),
            },
            "limit_conn_zone" | "limit_conn" => {
                let why = "rules cannot limit concurrent requests; keep it in nginx";
                self.leave_out(line, format!("{said}: {why}"));
            }
            "limit_req_status" => self.take_status(line, &said, arguments),
            "limit_req_dry_run" if arguments.first().is_some_and(|it| it == "on") => {
                let why = "write shadow_mode: true into the rules that this part of nginx uses";
                self.leave_out(line, format!("{said}: {why}"));
            }
            "limit_req_log_level" => {
                self.leave_out(
                    line,
                    format!("{said}: the level is a setting of Tollgate, --denial-log-level"),
                );
            }
            "include" if !self.is_whole => {
                let why = "the file was not read; import what `nginx -T` prints, which has all files";
                self.leave_out(line, format!("{said}: {why}"));
            }
            _ => {}
        }
    }

    fn take_status(&mut self, line: usize, said: &str, arguments: &[String]) {
        let status =
            arguments.first().and_then(|text| text.parse().ok()).filter(|it| (400..=599).contains(it));
        match (status, self.status) {
            (None, _) => self.leave_out(line, format!("{said}: expected a status from 400 to 599")),
            (Some(status), None) => self.status = Some(status),
            (Some(status), Some(first)) if status != first => {
                let why =
                    format!("all rules have the first one, {first}; write a response into single rules");
                self.leave_out(line, format!("{said}: {why}"));
            }
            _ => {}
        }
    }

    fn finish(mut self, name: &str, domain: &str) -> Imported {
        let zones = std::mem::take(&mut self.zones);
        let uses = std::mem::take(&mut self.uses);
        let mut by_name: BTreeMap<&str, &Zone> = BTreeMap::new();
        for zone in &zones {
            if let Some(first) = by_name.get(zone.name.as_str()) {
                let why = format!("zone {} is already defined in line {}", zone.name, first.line);
                self.leave_out(zone.line, why);
            } else {
                by_name.insert(&zone.name, zone);
            }
        }
        let mut paces: BTreeMap<&str, &Use> = BTreeMap::new();
        for used in &uses {
            if !by_name.contains_key(used.zone.as_str()) {
                self.leave_out(used.line, format!("zone {} is not defined in this text", used.zone));
            } else if let Some(first) = paces.get(used.zone.as_str()) {
                if first.pace != used.pace {
                    let why = format!(
                        "zone {} has the burst of line {} here too, since a rule has one: {}",
                        used.zone, first.line, first.pace
                    );
                    self.leave_out(used.line, why);
                }
            } else {
                paces.insert(&used.zone, used);
            }
        }
        let mut rules = head(name, domain, self.status);
        let mut number = 0;
        for zone in
            zones.iter().filter(|zone| by_name.get(zone.name.as_str()).is_some_and(|it| it.line == zone.line))
        {
            match paces.get(zone.name.as_str()) {
                Some(used) => {
                    zone.write(used, &mut rules);
                    number += 1;
                }
                None => self.leave_out(zone.line, format!("zone {} is not used by any limit_req", zone.name)),
            }
        }
        if number == 0 {
            rules.push_str("  []\n");
        }
        self.left_out.sort_by_key(|left_out| left_out.line);
        Imported { rules, number, left_out: self.left_out }
    }
}

/// The beginning of the rule file, up to its descriptors.
fn head(name: &str, domain: &str, status: Option<u16>) -> String {
    let name = tollgate_human_text::clip(name);
    let mut text = format!(
        "# Imported from {name} by `tollgate import nginx`.
#
# Each zone is a rule. For each zone that limits a request, nginx sends a descriptor with the entries that the
# rule lists: the name of the zone first, then the parts of its key. docs/coming-from.md has the configuration.
# nginx does not limit a request whose key is empty: leave the descriptor out then.
domain: {}
# As in nginx: a request that one zone denies is not charged to the others.
charge: together
",
        zone::quoted(domain)
    );
    match status {
        Some(status) => text.push_str(&format!("response: {{status: {status}}}\n")),
        None => text
            .push_str("# nginx denies with 503 unless limit_req_status says otherwise, Tollgate with 429.\n"),
    }
    text.push_str("descriptors:\n");
    text
}

/// `burst=5 nodelay`, as nginx writes it.
impl std::fmt::Display for Pace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.burst, self.delay) {
            (0, _) => f.write_str("no burst"),
            (burst, None) => write!(f, "burst={burst} nodelay"),
            (burst, Some(0)) => write!(f, "burst={burst}"),
            (burst, Some(delay)) => write!(f, "burst={burst} delay={delay}"),
        }
    }
}

#[cfg(test)]
mod tests;
