//! A zone of nginx and its uses: what they say, and the rule that they make.

use std::fmt::Write as _;

/// `limit_req_zone`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) line: usize,
    pub(super) name: String,
    /// The entries that its key is made of.
    keys: Vec<String>,
    /// As nginx writes it.
    key: String,
    /// Of its memory, as nginx writes it.
    size: String,
    /// `10/s` or `10/m`.
    rate: String,
    pub(super) is_synced: bool,
}

/// `limit_req`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) line: usize,
    pub(super) zone: String,
    pub(super) pace: Pace,
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
    pub(super) fn of(line: usize, arguments: &[String]) -> Result<Self, String> {
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
            line,
            name,
            keys: variables(key),
            key: key.clone(),
            size: size.unwrap_or_default(),
            // nginx's own default.
            rate: rate.unwrap_or_else(|| "1/s".to_owned()),
            is_synced,
        })
    }

    /// Appends the rule of this zone, with the burst of `used`.
    pub(super) fn write(&self, used: &Use, out: &mut String) {
        let Pace { burst, delay } = used.pace;
        let capacity = burst.saturating_add(1);
        let form = match delay {
            // With a capacity of one nothing waits.
            _ if burst == 0 => "form: meter, capacity: 1".to_owned(),
            None => format!("form: meter, capacity: {capacity}"),
            Some(0) => format!("form: queue, capacity: {capacity}"),
            Some(delay) => format!("form: queue, capacity: {capacity}, delay_after: {delay}"),
        };
        let limit = format!("rate_limit: {{rate: {}, algorithm: leaky_bucket, {form}}}", self.rate);
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "  # line {}: key {}; line {}: {}",
            self.line,
            plain(&self.key),
            used.line,
            used.pace
        );
        if !self.size.is_empty() {
            let _ = writeln!(
                out,
                "  # Its {} of memory: --memory-max bounds the counters of all rules together.",
                plain(&self.size)
            );
        }
        let _ = writeln!(out, "  - key: zone\n    value: {}", quoted(&self.name));
        let mut indent = "    ".to_owned();
        for key in &self.keys {
            let _ = writeln!(out, "{indent}descriptors:\n{indent}  - key: {}", quoted(key));
            indent.push_str("    ");
        }
        let _ = writeln!(out, "{indent}{limit}");
    }
}

impl Use {
    /// From the arguments of a directive.
    pub(super) fn of(line: usize, arguments: &[String]) -> Result<Self, String> {
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
        Ok(Self { line, zone, pace: Pace { burst, delay: delay.filter(|delay| *delay < burst) } })
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

/// The variables of a key, as names of entries. Addresses have the name that rule files use.
fn variables(key: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = key;
    while let Some((_, after)) = rest.split_once('$') {
        let (name, behind) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or((braced, "")),
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        rest = behind;
        let name = match name {
            "binary_remote_addr" | "remote_addr" => "remote_address",
            name => name,
        };
        if !name.is_empty() {
            names.push(name.to_owned());
        }
    }
    names
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
fn plain(text: &str) -> String {
    tollgate_human_text::clip(text)
}
