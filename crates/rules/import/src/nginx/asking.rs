//! The lines of nginx's subrequest for the limits of a place, with no client input in the URL. Not here: the
//! rest of the configuration, which docs/proxies.md has.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::key::{KeyVariable, Way};
use super::place::Places;
use super::zone::{LISTED, STATUS, Use, Zone, plain};

/// Time that nginx waits beyond the longest wait of a request for its turn.
const MARGIN: Duration = Duration::from_millis(500);

/// Appends, as comments, the lines for each combination of zones that limit a place together.
pub(super) fn write(written: &[(&Zone, Vec<&Use>)], domain: &str, places: &Places, out: &mut String) {
    let mut combinations: Vec<(Vec<&Zone>, Vec<&Use>)> = Vec::new();
    let mut known: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for (zones, first) in groups(written) {
        let names = zones.iter().map(|zone| zone.name.as_str()).collect();
        let at = *known.entry(names).or_insert(combinations.len());
        match combinations.get_mut(at) {
            Some((_, uses)) => uses.push(first),
            None => combinations.push((zones, vec![first])),
        }
    }
    let all = combinations.len();
    for (zones, uses) in combinations.into_iter().take(LISTED) {
        write_one(&zones, &uses, written, domain, places, out);
    }
    if let Some(more @ 1..) = all.checked_sub(LISTED) {
        let _ = writeln!(
            out,
            "#\n# And {}, which are asked about alike.",
            tollgate_human_text::counted(more, "more place")
        );
    }
}

/// The zones of each place, and one of its uses, in the order of the places.
fn groups<'a>(written: &[(&'a Zone, Vec<&'a Use>)]) -> Vec<(Vec<&'a Zone>, &'a Use)> {
    let mut all: Vec<(&Zone, &Use)> =
        written.iter().flat_map(|(zone, uses)| uses.iter().map(|it| (*zone, *it))).collect();
    all.sort_by_key(|(zone, it)| (it.group, zone.place));
    let same_place = all.chunk_by(|(_, a), (_, b)| a.group == b.group);
    same_place
        .filter_map(|them| Some((them.iter().map(|(zone, _)| *zone).collect(), them.first()?.1)))
        .collect()
}

fn write_one(
    zones: &[&Zone],
    uses: &[&Use],
    written: &[(&Zone, Vec<&Use>)],
    domain: &str,
    places: &Places,
    out: &mut String,
) {
    let at: Vec<String> =
        uses.iter().take(3).map(|it| format!("{} ({})", plain(&it.level), places.shown(it.place))).collect();
    let more = match uses.len().saturating_sub(3) {
        0 => String::new(),
        more => format!(" and {}", tollgate_human_text::counted(more, "more place")),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "#\n# For {}{more}:", at.join(", "));
    let mut keys: Vec<KeyVariable> = Vec::new();
    for key in zones.iter().flat_map(|zone| zone.entries()) {
        if key.way() != Way::Url && !keys.contains(&key) {
            keys.push(key);
        }
    }
    for key in keys.iter().filter(|key| key.way() == Way::Checked) {
        let _ = writeln!(out, "#   {}", checked(key));
    }
    for key in keys.iter().filter(|key| matches!(key.way(), Way::Set | Way::Checked)) {
        let _ = writeln!(out, "#   {}", set(key));
    }
    let descriptors: Vec<String> = zones.iter().map(|zone| descriptor(zone)).collect();
    let _ = writeln!(
        out,
        "#   proxy_pass http://tollgate/v1/check?domain={}&{}&status=403;",
        encoded(domain),
        descriptors.join("&descriptor&")
    );
    for key in &keys {
        let _ = writeln!(out, "#   {}", sent(key));
    }
    let waits = zones.iter().filter_map(|zone| {
        let (_, uses) = written.iter().find(|(it, _)| it.name == zone.name)?;
        zone.wait_of(uses)
    });
    if let Some(wait) = waits.max() {
        let _ = writeln!(out, "#   {}", read_timeout(wait));
    }
    let status = uses.first().and_then(|it| it.status).unwrap_or(STATUS);
    if status != 429 {
        let _ = writeln!(out, "#   return {status}; # in @limited");
    }
}

/// The entries of a zone's descriptor, as parameters.
fn descriptor(zone: &Zone) -> String {
    let mut text = format!("entry=zone={}", encoded(&zone.name));
    for key in zone.entries() {
        text.push('&');
        text.push_str(&parameter(&key));
    }
    text
}

/// The parameter of the URL that brings an entry.
pub(super) fn parameter(key: &KeyVariable) -> String {
    match key.way() {
        Way::Url => format!("entry={}=${}", key.entry, key.variable),
        Way::Field | Way::Set | Way::Checked => format!("entry_header={}={}", key.entry, key.field()),
    }
}

/// The line that puts a value into a field.
pub(super) fn sent(key: &KeyVariable) -> String {
    format!("proxy_set_header {} ${};", key.field(), key.sent())
}

/// The line of the limited place that keeps its value for the subrequest.
fn set(key: &KeyVariable) -> String {
    let from = if key.way() == Way::Checked { "checked_" } else { "" };
    format!("set ${} ${from}{};", key.sent(), key.variable)
}

/// The line beside the servers that leaves out control characters.
fn checked(key: &KeyVariable) -> String {
    let KeyVariable { variable, .. } = key;
    format!(r#"map ${variable} $checked_{variable} {{ default ${variable}; "~[\x00-\x1F\x7F]" invalid; }}"#)
}

/// The line that lets a request wait for its turn.
pub(super) fn read_timeout(wait: Duration) -> String {
    format!("proxy_read_timeout {}ms;", wait.saturating_add(MARGIN).as_millis())
}

/// A text in a URL of nginx: characters that would end a parameter or begin a variable are escaped.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}
