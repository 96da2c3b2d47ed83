//! A zone of nginx with its uses, and the rule made of them.

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_human_text::show_duration;

use super::key::{KeyVariable, has_literals, keys};
use super::place::{Place, Places};
use super::tables::{Clients, Obstacle};

/// Status code with which nginx denies unless `limit_req_status` sets another.
pub(super) const STATUS: u16 = 503;

/// The most uses of a zone that its rule lists.
pub(super) const LISTED: usize = 20;

/// Says that values are addresses, each with a counter of its own, as in nginx.
const ADDRESS: &str = "ipv6_prefix: 128";

/// The longest wait that a rule allows.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A zone, as `limit_req_zone` defines it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Zone {
    pub(super) place: Place,
    pub(super) name: String,
    /// The variables that its key is made of.
    pub(super) keys: Vec<KeyVariable>,
    /// As nginx writes it.
    pub(super) key: String,
    /// Size of its memory, as nginx writes it.
    size: String,
    rate: Rate,
    pub(super) is_synced: bool,
    /// Clients that it limits, if not all, as `geo` and `map` make its key.
    pub(super) clients: Option<Clients>,
    /// Reason why the tables of its key do not become [`Self::clients`].
    pub(super) obstacle: Option<Obstacle>,
}

/// Requests that pass per second or per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    requests: u32,
    seconds: u32,
}

/// A use of a zone, as `limit_req` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ZoneUse {
    pub(super) place: Place,
    pub(super) zone: String,
    pub(super) pace: Pace,
}

/// A place that a zone limits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// Which place it is; uses of one place have the same number.
    pub(super) group: usize,
    /// Place of its `limit_req`, or of the directive that changes an inherited one.
    pub(super) place: Place,
    /// As people call the block: `location /`.
    pub(super) level: String,
    pub(super) zone: String,
    pub(super) pace: Pace,
    pub(super) status: Option<u16>,
    pub(super) is_dry_run: bool,
}

/// Treatment of requests above the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) burst: u64,
    /// Number of requests that pass at once before others wait; `None` if no request waits.
    pub(super) delay: Option<u64>,
}

impl Zone {
    /// Reads the arguments of a directive.
    pub(super) fn of(place: Place, arguments: &[String]) -> Result<Self, String> {
        let [key, parameters @ ..] = arguments else { return Err("it has no key".to_owned()) };
        let mut name = None;
        let mut size = None;
        let mut rate = None;
        let mut is_synced = false;
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
            keys: keys(key),
            key: key.clone(),
            size: size.unwrap_or_default(),
            // nginx's own default.
            rate: rate.unwrap_or(Rate { requests: 1, seconds: 1 }),
            is_synced,
            clients: None,
            obstacle: None,
        })
    }

    /// Appends the rule of this zone, with the burst of its first use, and `status` for those that it denies.
    pub(super) fn write(&self, uses: &[&Use], status: Option<u16>, places: &Places, out: &mut String) {
        let Some(first) = uses.first() else { return };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  # {}: key {}", places.shown(self.place), plain(&self.key));
        for used in uses.iter().take(LISTED) {
            let _ =
                writeln!(out, "  # {}: {} in {}", places.shown(used.place), used.pace, plain(&used.level));
        }
        if let Some(more @ 1..) = uses.len().checked_sub(LISTED) {
            let _ = writeln!(out, "  # and in {}", tollgate_human_text::counted(more, "more place"));
        }
        if !self.size.is_empty() {
            let _ = writeln!(
                out,
                "  # Its {} of memory: --memory-max bounds the counters of all rules together.",
                plain(&self.size)
            );
        }
        let is_dry_run = uses.iter().all(|used| used.is_dry_run);
        let wait = self.wait_of(uses);
        let capacity = match (wait, first.pace.delay) {
            (Some(_), Some(delay)) => delay.saturating_add(1),
            _ => first.pace.burst.saturating_add(1),
        };
        let rate = self.rate;
        let mut rule =
            vec![format!("rate_limit: {{rate: {rate}, algorithm: leaky_bucket, capacity: {capacity}}}")];
        if let Some(wait) = wait {
            let wait = show_duration(wait);
            rule.extend(["on_limit: queue".to_owned(), format!("max_wait: {wait}")]);
        }
        rule.extend(status.map(|status| format!("response: {{status: {status}}}")));
        rule.extend(is_dry_run.then(|| "shadow_mode: true".to_owned()));
        self.write_rules("zone", &rule, out);
    }

    /// Longest wait of a request in nginx with `pace`, in whole milliseconds, rounded up; `None` if no
    /// request waits.
    pub(super) fn wait(&self, pace: Pace) -> Option<Duration> {
        let waiting = pace.burst.checked_sub(pace.delay?).filter(|waiting| *waiting > 0)?;
        let Rate { requests, seconds } = self.rate;
        let ms = (u128::from(waiting) * u128::from(seconds) * 1_000).div_ceil(u128::from(requests));
        Some(Duration::from_millis(ms.try_into().unwrap_or(u64::MAX)))
    }

    /// Longest wait of a request by the rule of this zone: a tenth of a turn longer than in nginx. `None` if
    /// no request waits, also where all uses only count.
    pub(super) fn wait_of(&self, uses: &[&Use]) -> Option<Duration> {
        let first = uses.first().filter(|_| !uses.iter().all(|used| used.is_dry_run))?;
        // The last turn is exactly as far away as nginx allows, and a turn comes a little late.
        let Rate { requests, seconds } = self.rate;
        let tenth = Duration::from_millis((u64::from(seconds) * 100).div_ceil(u64::from(requests)));
        Some((self.wait(first.pace)? + tenth).min(LONGEST_WAIT))
    }

    /// The entries of the descriptors of the rules of this zone, behind the one that names it.
    pub(super) fn entries(&self) -> Vec<KeyVariable> {
        if self.clients.is_some() { vec![KeyVariable::client()] } else { self.keys.clone() }
    }

    /// Appends the rules of this zone, whose first entry has the key `first`; `rule` has the lines of each
    /// rule that limits.
    pub(super) fn write_rules(&self, first: &str, rule: &[String], out: &mut String) {
        let _ = writeln!(out, "  - key: {first}\n    value: {}", quoted(&self.name));
        let indent = "    ";
        let Some(clients) = &self.clients else {
            return self.write_levels(&self.keys, self.may_be_empty(), indent, rule, out);
        };
        let entry = KeyVariable::client().entry;
        let _ = writeln!(out, "{indent}descriptors:");
        let networks = clients.networks.iter().map(|(network, is_limited)| (Some(network), *is_limited));
        for (network, is_limited) in networks.chain([(None, clients.are_others_limited)]) {
            let _ = writeln!(out, "{indent}  - key: {entry}");
            if let Some(network) = network {
                let _ = writeln!(out, "{indent}    value_cidr: {network}");
            }
            if network.is_none() && is_limited {
                let _ = writeln!(out, "{indent}    {ADDRESS}");
            }
            match is_limited {
                true => write_lines(rule, &format!("{indent}    "), out),
                false => _ = writeln!(out, "{indent}    action: allow"),
            }
        }
    }

    /// Appends a level for each of `keys`, and the rule below. If `all_empty`, the keys before are empty, and
    /// a request without any value is not limited.
    fn write_levels(
        &self,
        keys: &[KeyVariable],
        all_empty: bool,
        indent: &str,
        rule: &[String],
        out: &mut String,
    ) {
        let Some((key, below)) = keys.split_first() else { return write_lines(rule, indent, out) };
        let inner = format!("{indent}    ");
        let _ = writeln!(out, "{indent}descriptors:");
        if all_empty {
            if below.is_empty() {
                let _ = writeln!(out, "{indent}  # nginx does not limit a request whose key is empty.");
            }
            let _ = writeln!(out, "{indent}  - key: {}\n{inner}value_regex: ^$", quoted(&key.entry));
            match below {
                [] => _ = writeln!(out, "{inner}action: allow"),
                _ => self.write_levels(below, true, &inner, rule, out),
            }
        }
        let _ = writeln!(out, "{indent}  - key: {}", quoted(&key.entry));
        if key.is_address() {
            let _ = writeln!(out, "{inner}{ADDRESS}");
        }
        self.write_levels(below, false, &inner, rule, out);
    }

    /// The key consists of variables only, and some requests have none of them.
    fn may_be_empty(&self) -> bool {
        !self.keys.is_empty() && self.keys.iter().all(KeyVariable::may_be_empty) && !has_literals(&self.key)
    }

    /// The variable that makes the whole key, if there is one.
    pub(super) fn only_variable(&self) -> Option<&str> {
        match &self.keys[..] {
            [key] if !has_literals(&self.key) => Some(&key.variable),
            _ => None,
        }
    }
}

fn write_lines(lines: &[String], indent: &str, out: &mut String) {
    for line in lines {
        let _ = writeln!(out, "{indent}{line}");
    }
}

impl ZoneUse {
    /// Reads the arguments of a directive.
    pub(super) fn of(place: Place, arguments: &[String]) -> Result<Self, String> {
        let mut zone = None;
        let mut burst = 0;
        let mut delay = Some(0);
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

/// `10r/s`, `10r/m`, or a number alone, which nginx reads as one per second.
fn rate_of(text: &str) -> Result<Rate, String> {
    let (number, seconds) = match text.split_once("r/") {
        Some((number, "s")) => (number, 1),
        Some((number, "m")) => (number, 60),
        Some(_) => ("", 1),
        None => (text, 1),
    };
    match number.parse() {
        Ok(requests @ 1..) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(Rate { requests, seconds })
        }
        _ => Err(format!("rate={text} is not a rate such as 10r/s or 10r/m")),
    }
}

/// The rate, as rule files write it.
impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.requests, if self.seconds == 60 { "m" } else { "s" })
    }
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
