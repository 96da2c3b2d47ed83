//! Meaning of the fields of a log: the time, the cost, and the entries of descriptors.
//!
//! Everything has a default that fits the usual names, so that a mapping says only what differs. It is a flat
//! YAML file, or `--map KEY=VALUE`, with the same keys.

use std::path::Path;
use std::time::Duration;

use tollgate_human_text::{did_you_mean, one_of, parse_duration};
use tollgate_rule_files::read_flat_yaml;

use crate::format::Format;
use crate::instant::Unit;
use crate::row::Wanted;

const KEYS: [&str; 10] = [
    "admitted",
    "columns",
    "commit_after",
    "cost",
    "descriptors",
    "domain",
    "format",
    "reserve",
    "time",
    "time_unit",
];

/// Reservations of a server live for five minutes at most.
const LONGEST_COMMIT: Duration = Duration::from_secs(240);

const TIME: [&str; 16] = [
    "StartUTC",           // Traefik, beside the time at which it wrote the line
    "EdgeStartTimestamp", // Cloudflare
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "start_time",
    "time_iso8601",
    "time_local",
    "date",
    "t_s",
    "t_ms",
    "t_us",
    "t_ns",
    "msec",
    "second",
];

/// Fields that name a client, the one that it can least choose itself first.
const CLIENT: [&str; 14] = [
    "client",
    "client_ip",
    "clientip",
    "remote_addr",
    "remote_address",
    "ip",
    "downstream_remote_address",
    "downstream_direct_remote_address",
    "remote_ip",
    "request.client_ip", // Caddy
    "request.remote_ip",
    "ClientHost", // Traefik
    "ClientIP",   // Cloudflare
    "x_forwarded_for",
];

/// Fields of Envoy that have a port.
const WITH_PORT: [&str; 2] = ["downstream_remote_address", "downstream_direct_remote_address"];

/// Other names of what descriptors are often called.
const ALIASES: [(&[&str], &[&str]); 5] = [
    (&CLIENT, &CLIENT),
    (&["user", "user_id", "api_key"], &["user", "user_id", "remote_user", "ClientUsername"]),
    (
        &["path", "uri"],
        &["path", "uri", "request_uri", "url", "target", "request.path", "request.uri", "RequestPath"],
    ),
    (
        &["host", "authority"],
        &["host", "authority", ":authority", "http_host", "request.host", "RequestHost"],
    ),
    (&["method"], &["method", "request_method", "request.method", "RequestMethod"]),
];

/// A field's value that a line must have, or must not, to count as admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) is_equal: bool,
}

/// Meaning of fields; every part is optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) format: Option<Format>,
    pub(crate) columns: Vec<String>,
    pub(crate) time: Option<String>,
    pub(crate) unit: Option<Unit>,
    /// Fields whose sum is the cost; none: each line costs 1.
    pub(crate) cost: Vec<String>,
    /// Fields and numbers whose sum is reserved first; empty: the cost is taken at once.
    pub(crate) reserve: Vec<String>,
    /// When the cost is committed after that.
    pub(crate) commit_after: Duration,
    pub(crate) domain: Option<String>,
    /// Entries of each descriptor: a key and the field that has its value, by its names.
    pub(crate) descriptors: Vec<Vec<(String, Wanted)>>,
    pub(crate) admitted: Option<Condition>,
}

/// A mapping that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MappingError {
    #[error("cannot read the mapping {0}: {1}")]
    Unreadable(String, std::io::Error),
    #[error("{0}")]
    Faulty(String),
}

impl Mapping {
    /// The mapping of a file, if there is one, and of `KEY=VALUE` pairs, which come after it.
    pub(crate) fn read(file: Option<&Path>, pairs: &[String]) -> Result<Self, MappingError> {
        let mut mapping = Self::default();
        if let Some(file) = file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| MappingError::Unreadable(file.display().to_string(), error))?;
            let (entries, faults) = read_flat_yaml(file, &text);
            if let Some(fault) = faults.first() {
                return Err(MappingError::Faulty(fault.to_string()));
            }
            for entry in entries {
                let values: Vec<&str> = entry.values.iter().map(|(value, _)| value.as_str()).collect();
                mapping
                    .set(&entry.name, &values)
                    .map_err(|error| MappingError::Faulty(format!("{}: {error}", entry.place)))?;
            }
        }
        for pair in pairs {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                MappingError::Faulty(format!("--map {pair}: write KEY=VALUE, such as time=start_time"))
            })?;
            mapping
                .set(key.trim(), &[value.trim()])
                .map_err(|error| MappingError::Faulty(format!("--map {pair}: {error}")))?;
        }
        Ok(mapping)
    }

    fn set(&mut self, key: &str, values: &[&str]) -> Result<(), String> {
        let one = || match values {
            [value] if !value.is_empty() => Ok((*value).to_owned()),
            _ => Err(format!("{key} needs one value")),
        };
        let words = |separator: char| {
            let words = values.iter().flat_map(|value| value.split(separator));
            words.map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect::<Vec<_>>()
        };
        match key {
            "format" => {
                let name = one()?;
                let format = Format::named(&name);
                self.format = Some(
                    format.ok_or_else(|| format!("unknown format {name}; use {}", one_of(&Format::NAMES)))?,
                );
            }
            "columns" => self.columns = words(','),
            "time" => self.time = Some(one()?),
            "time_unit" => {
                let name = one()?;
                let unit = Unit::named(&name);
                self.unit =
                    Some(unit.ok_or_else(|| format!("unknown unit {name}; use {}", one_of(&Unit::NAMES)))?);
            }
            "cost" => self.cost = words('+'),
            "reserve" => self.reserve = words('+'),
            "commit_after" => {
                let span = parse_duration(&one()?).filter(|span| *span <= LONGEST_COMMIT);
                self.commit_after = span.ok_or("write a time up to 4m, such as 500ms or 5s")?;
            }
            "domain" => self.domain = Some(one()?),
            "descriptors" => {
                self.descriptors =
                    words(';').iter().map(|text| descriptor(text)).collect::<Result<_, _>>()?;
            }
            "admitted" => self.admitted = Some(condition(&one()?)?),
            _ => {
                let hint = did_you_mean(key, &KEYS);
                let hint = hint.unwrap_or_else(|| format!("use {}", one_of(&KEYS)));
                return Err(format!("unknown key {key}; {hint}"));
            }
        }
        Ok(())
    }

    /// The field that has the time.
    pub(crate) fn time(&self) -> Wanted {
        Wanted(self.time.as_ref().map_or_else(|| TIME.map(str::to_owned).to_vec(), |name| vec![name.clone()]))
    }

    /// The unit of a time that is in the field with this rank among [`Self::time`].
    pub(crate) fn unit(&self, rank: usize) -> Option<Unit> {
        let field = self.time.as_deref().or_else(|| TIME.get(rank).copied());
        self.unit.or_else(|| field.and_then(Unit::of_field))
    }
}

/// `remote_address=client path=path`, or `client` alone for the field that usually has it.
fn descriptor(text: &str) -> Result<Vec<(String, Wanted)>, String> {
    let entries = text.split([' ', ',']).filter(|entry| !entry.is_empty());
    let entries = entries.map(|entry| match entry.split_once('=') {
        Some((key, field)) if !key.is_empty() && !field.is_empty() => {
            Ok((key.to_owned(), Wanted(vec![field.to_owned()])))
        }
        None => Ok((entry.to_owned(), fields_of(entry))),
        Some(_) => Err(format!("invalid entry {entry}; write KEY=FIELD, such as remote_address=client")),
    });
    entries.collect()
}

/// `status != 429` or `decision = allow`
fn condition(text: &str) -> Result<Condition, String> {
    let parts = text.split_once("!=").map(|parts| (parts, false));
    let parts = parts.or_else(|| text.split_once('=').map(|parts| (parts, true)));
    match parts {
        Some(((field, value), is_equal)) if !field.trim().is_empty() && !value.trim().is_empty() => {
            Ok(Condition { field: field.trim().to_owned(), value: value.trim().to_owned(), is_equal })
        }
        _ => Err(format!("invalid condition {text}; write FIELD=VALUE or FIELD!=VALUE, as in status!=429")),
    }
}

/// The fields that an entry with this key is taken from.
pub(crate) fn fields_of(key: &str) -> Wanted {
    let mut names = vec![key.to_owned()];
    for (keys, fields) in ALIASES {
        if keys.contains(&key) {
            names.extend(fields.iter().filter(|name| **name != key).map(|name| (*name).to_owned()));
        }
    }
    Wanted(names)
}

/// The fields that name a client.
pub(crate) fn client() -> Wanted {
    Wanted(CLIENT.map(str::to_owned).to_vec())
}

/// Whether a descriptor has the value of the field `name` as it is.
pub(crate) fn is_as_it_is(name: &str) -> bool {
    !WITH_PORT.contains(&name) && !is_list(name)
}

/// Whether the field `name` is a list of forwarding proxies.
pub(crate) fn is_list(name: &str) -> bool {
    name == "x_forwarded_for"
}

/// The value of the field `name` as a descriptor has it: an address of Envoy without its port, of a list of
/// forwarding proxies the first.
pub(crate) fn value_of<'a>(name: &str, value: &'a str) -> &'a str {
    if WITH_PORT.contains(&name) {
        let host = match value.rsplit_once(':') {
            Some((host, _)) if !host.contains(':') || host.ends_with(']') => host,
            _ => value, // an IPv6 address without a port
        };
        return host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    }
    if is_list(name) {
        return value.split(',').next().unwrap_or(value).trim();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_envoy_loses_its_port_and_nothing_else() {
        for (value, want) in [
            ("10.0.0.1:80", "10.0.0.1"),
            ("10.0.0.1", "10.0.0.1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(value_of("downstream_remote_address", value), want);
        }
    }
}
