//! A zone of nginx and its uses: what they say, and the rule that they make.

use std::fmt::Write as _;

use super::place::{Place, Places};

/// What nginx denies with unless `limit_req_status` says otherwise.
pub(super) const STATUS: u16 = 503;

/// The most uses of a zone that its rule lists.
pub(super) const LISTED: usize = 20;

/// Variables that have a value in every request.
const NEVER_EMPTY: &[&str] = &[
    "binary_remote_addr",
    "connection",
    "document_root",
    "document_uri",
    "host",
    "hostname",
    "nginx_version",
    "pid",
    "remote_addr",
    "remote_port",
    "request",
    "request_id",
    "request_method",
    "request_uri",
    "scheme",
    "server_addr",
    "server_port",
    "server_protocol",
    "uri",
];

/// `limit_req_zone`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) place: Place,
    pub(super) name: String,
    /// The variables that its key is made of.
    pub(super) keys: Vec<Key>,
    /// As nginx writes it.
    pub(super) key: String,
    /// Of its memory, as nginx writes it.
    size: String,
    /// `10/s` or `10/m`.
    rate: String,
    pub(super) is_synced: bool,
}

/// A variable of a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Without its dollar sign; an address is `remote_addr`.
    pub(super) variable: String,
    /// The entry that has its value.
    pub(super) entry: String,
}

/// `limit_req`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) place: Place,
    pub(super) zone: String,
    pub(super) pace: Pace,
}

/// A place that a zone limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Of its `limit_req`, or of what changes an inherited one.
    pub(super) place: Place,
    /// As people call the block: `location /`.
    pub(super) level: String,
    pub(super) zone: String,
    pub(super) pace: Pace,
    pub(super) status: Option<u16>,
    pub(super) is_dry_run: bool,
}

/// What passes above the rate, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) burst: u64,
    /// How many pass at once before others wait; `None` if no request waits.
    pub(super) delay: Option<u64>,
}

impl Zone {
    /// From the arguments of a directive.
    pub(super) fn of(place: Place, arguments: &[String]) -> Result<Self, String> {
        let [key, parameters @ ..] = arguments else { return Err("it has no key".to_owned()) };
        let (mut name, mut size, mut rate, mut is_synced) = (None, None, None, false);
        for parameter in parameters {
            match parameter.split_once('=') {
                Some(("zone", zone)) => {
                    let (zone, bytes) = zone.split_once(':').unwrap_or((zone, ""));
                    (name, size) = (Some(zone.to_owned()), Some(bytes.to_owned()));
                }
                Some(("rate", text)) => rate = Some(rate_of(text)?),
                _ if parameter == "sync" => is_synced = true,
                _ => return Err(format!("unknown parameter {parameter}")),
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or("it has no zone=NAME:SIZE")?;
        Ok(Self {
            place,
            name,
            keys: variables(key),
            key: key.clone(),
            size: size.unwrap_or_default(),
            // nginx's own default.
            rate: rate.unwrap_or_else(|| "1/s".to_owned()),
            is_synced,
        })
    }

    /// Appends the rule of this zone, with the burst of its first use, and `status` for those that it denies.
    pub(super) fn write(&self, uses: &[&Use], status: Option<u16>, places: &Places, out: &mut String) {
        let Some(first) = uses.first() else { return };
        let Pace { burst, delay } = first.pace;
        let capacity = burst.saturating_add(1);
        let form = match delay {
            // With a capacity of one nothing waits.
            _ if burst == 0 => "form: meter, capacity: 1".to_owned(),
            None => format!("form: meter, capacity: {capacity}"),
            Some(0) => format!("form: queue, capacity: {capacity}"),
            Some(delay) => format!("form: queue, capacity: {capacity}, delay_after: {delay}"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  # {}: key {}", places.shown(self.place), plain(&self.key));
        for used in uses.iter().take(LISTED) {
            let _ =
                writeln!(out, "  # {}: {} in {}", places.shown(used.place), used.pace, plain(&used.level));
        }
        if let Some(more @ 1..) = uses.len().checked_sub(LISTED) {
            let _ = writeln!(out, "  # and in {}", crate::counted::count(more, "more place"));
        }
        if !self.size.is_empty() {
            let _ = writeln!(
                out,
                "  # Its {} of memory: --memory-max bounds the counters of all rules together.",
                plain(&self.size)
            );
        }
        let indent = self.write_levels("zone", out);
        let _ = writeln!(out, "{indent}rate_limit: {{rate: {}, algorithm: leaky_bucket, {form}}}", self.rate);
        if let Some(status) = status {
            let _ = writeln!(out, "{indent}response: {{status: {status}}}");
        }
        if uses.iter().all(|used| used.is_dry_run) {
            let _ = writeln!(out, "{indent}shadow_mode: true");
        }
    }

    /// Appends the descriptors of the rule of this zone, whose first entry has the key `first`; returns what
    /// the lines of the rule itself begin with.
    pub(super) fn write_levels(&self, first: &str, out: &mut String) -> String {
        let _ = writeln!(out, "  - key: {first}\n    value: {}", quoted(&self.name));
        let mut indent = "    ".to_owned();
        for key in &self.keys {
            let entry = quoted(&key.entry);
            let _ = writeln!(out, "{indent}descriptors:");
            if self.may_be_empty() {
                let _ = writeln!(out, "{indent}  # nginx does not limit a request whose key is empty.");
                let _ = writeln!(out, "{indent}  - key: {entry}\n{indent}    value_regex: ^$");
                let _ = writeln!(out, "{indent}    action: allow");
            }
            let _ = writeln!(out, "{indent}  - key: {entry}");
            indent.push_str("    ");
        }
        indent
    }

    /// The key is one variable, which some requests do not have.
    fn may_be_empty(&self) -> bool {
        matches!(&self.keys[..], [key] if key.may_be_empty()) && !self.has_literals()
    }

    /// The key is several variables, each of which some requests do not have.
    pub(super) fn may_be_empty_in_parts(&self) -> bool {
        self.keys.len() > 1 && self.keys.iter().all(Key::may_be_empty) && !self.has_literals()
    }

    /// The key has text besides its variables.
    fn has_literals(&self) -> bool {
        let (_, literals) = parts(&self.key);
        !literals.is_empty()
    }
}

impl Key {
    fn may_be_empty(&self) -> bool {
        !NEVER_EMPTY.contains(&self.variable.as_str())
    }
}

impl Limit {
    /// From the arguments of a directive.
    pub(super) fn of(place: Place, arguments: &[String]) -> Result<Self, String> {
        let (mut zone, mut burst, mut delay) = (None, 0, Some(0));
        for parameter in arguments {
            let number =
                |text: &str| text.parse::<u64>().map_err(|_| format!("{parameter} has no whole number"));
            match parameter.split_once('=') {
                Some(("zone", name)) => zone = Some(name.to_owned()),
                Some(("burst", text)) => burst = number(text)?,
                Some(("delay", text)) => delay = Some(number(text)?),
                _ if parameter == "nodelay" => delay = None,
                _ => return Err(format!("unknown parameter {parameter}")),
            }
        }
        let zone = zone.filter(|name: &String| !name.is_empty()).ok_or("it has no zone=NAME")?;
        // Nothing waits where the burst ends before the delay begins.
        Ok(Self { place, zone, pace: Pace { burst, delay: delay.filter(|delay| *delay < burst) } })
    }
}

/// `10r/s` or `10r/m`, as rule files write it.
fn rate_of(text: &str) -> Result<String, String> {
    let wrong = || format!("rate={text} is not a rate such as 10r/s or 10r/m");
    let (number, unit) = text.split_once("r/").ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    match unit {
        "s" | "m" if number > 0 => Ok(format!("{number}/{unit}")),
        _ => Err(wrong()),
    }
}

/// The variables of a key. Addresses have the name that rule files use.
fn variables(key: &str) -> Vec<Key> {
    let (names, _) = parts(key);
    let key = |name: &str| match name {
        "binary_remote_addr" | "remote_addr" => {
            Key { variable: "remote_addr".to_owned(), entry: "remote_address".to_owned() }
        }
        name => Key { variable: name.to_owned(), entry: name.to_owned() },
    };
    names.into_iter().map(key).collect()
}

/// The names of the variables in a text, and all that is not a variable.
fn parts(text: &str) -> (Vec<&str>, String) {
    let (mut names, mut literals, mut rest) = (Vec::new(), String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        literals.push_str(before);
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or((braced, "")),
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        rest = behind;
        if !name.is_empty() {
            names.push(name);
        }
    }
    literals.push_str(rest);
    (names, literals)
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

/// A text as YAML has it: in quotes unless it cannot be anything else.
pub(super) fn quoted(text: &str) -> String {
    let is_name = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let is_word = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_name && !is_word { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// A text in a comment: on one line.
pub(super) fn plain(text: &str) -> String {
    tollgate_human_text::clip(text)
}
