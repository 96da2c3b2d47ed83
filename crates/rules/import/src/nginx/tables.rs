//! `geo` and `map`: variables that tables make. Where a key is the client's address for some networks and
//! empty for the others, the tables become networks of a rule, and nginx no longer needs them.
//!
//! Not here: variables that anything else makes, which nginx keeps.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, IpSubnets, Ipv4Subnets, Ipv6Subnets};

use super::key::{Piece, pieces};
use super::place::Place;

/// The most networks of a key, and the most lines of a table.
const MOST: usize = 10_000;
/// Most tables in a chain, in which each table is made of the next.
const DEEPEST: usize = 8;
/// The most variables that a key is made of: tables of several tables each grow without end.
const MOST_STEPS: usize = 200;

/// A variable that the configuration makes.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) place: Place,
    /// The directive without its block.
    pub(super) what: String,
    /// Its value may be the bytes of an address.
    pub(super) has_binary_address: bool,
    /// The table that makes it; `None` if anything else does.
    pub(super) table: Option<Table>,
}

/// A block of `geo` or `map`.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) kind: TableKind,
    /// Text that is looked up, with its variables.
    pub(super) source: String,
    pub(super) lines: Vec<TableLine>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    Geo,
    Map,
}

/// A line of a table.
#[derive(Debug)]
pub(super) struct TableLine {
    pub(super) place: Place,
    pub(super) words: Vec<String>,
}

/// Why the tables of a key cannot become networks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    /// Place of the line that prevents the networks, if it is a single line.
    pub(super) place: Option<Place>,
    pub(super) what: String,
}

/// Which addresses a zone limits, each by itself. The narrowest network that contains an address decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clients {
    /// Whether addresses in none of the networks are limited.
    pub(super) are_others_limited: bool,
    /// Networks, and whether their addresses are limited.
    pub(super) networks: Vec<(IpNet, bool)>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The client's address.
    Address,
}

type Value = Vec<Part>;

/// A value for each address: that of the narrowest network that contains it. The networks of all IPv4 and all
/// IPv6 addresses are always there.
#[derive(Clone, Debug)]
struct Networks(BTreeMap<IpNet, Value>);

/// Which clients the key `$name` limits; `None` if no table makes it.
///
/// # Errors
/// If the tables say more than which addresses are limited.
pub(super) fn clients(made: &BTreeMap<String, Made>, name: &str) -> Option<Result<Clients, Obstacle>> {
    made.get(name)?.table.as_ref()?;
    Some(Reader { made, steps: Cell::new(0) }.variable(name, 0).and_then(|networks| networks.clients()))
}

struct Reader<'a> {
    made: &'a BTreeMap<String, Made>,
    /// Variables that were looked into so far.
    steps: Cell<usize>,
}

impl Reader<'_> {
    /// The value of a text with variables.
    fn text(&self, text: &str, depth: usize) -> Result<Networks, Obstacle> {
        let mut all = Networks::same(Value::new());
        for piece in pieces(text) {
            let next = match piece {
                Piece::Text(text) => Networks::same(vec![Part::Text(text.to_owned())]),
                Piece::Variable("remote_addr" | "binary_remote_addr") => Networks::same(vec![Part::Address]),
                Piece::Variable(name) => self.variable(name, depth)?,
            };
            all = Networks::of(&[&all, &next], |values| Some(joined(values)))?;
        }
        Ok(all)
    }

    fn variable(&self, name: &str, depth: usize) -> Result<Networks, Obstacle> {
        let Some(made) = self.made.get(name) else {
            return Err(Obstacle {
                place: None,
                what: format!("${name} is not made of the client's address"),
            });
        };
        let stuck = |what: String| Err(Obstacle { place: Some(made.place), what });
        let what = &made.what;
        self.steps.set(self.steps.get() + 1);
        match &made.table {
            None => stuck(format!("{what} makes ${name}")),
            Some(_) if depth >= DEEPEST || self.steps.get() > MOST_STEPS => {
                stuck(format!("{what} is made of too many tables"))
            }
            Some(table) if table.lines.len() > MOST => stuck(format!("{what} has more than {MOST} lines")),
            Some(table) if table.kind == TableKind::Map => self.map(table, depth + 1),
            Some(table) if table.source == "$remote_addr" => geo(table),
            Some(_) => stuck(format!("{what} looks up another address")),
        }
    }

    fn map(&self, table: &Table, depth: usize) -> Result<Networks, Obstacle> {
        let mut default = String::new();
        let mut exact = BTreeMap::new();
        for line in &table.lines {
            let stuck = |what: String| Err(Obstacle { place: Some(line.place), what });
            match &line.words[..] {
                [word] if word == "volatile" => {}
                [key, value] if key == "default" => default.clone_from(value),
                [key, _] if key.starts_with('~') => return stuck(format!("{key} is a regular expression")),
                [key, value] => {
                    // A backslash is before a word that has a meaning of its own.
                    let key = key.strip_prefix('\\').unwrap_or(key);
                    exact.insert(key.to_ascii_lowercase(), value.clone());
                }
                words => return stuck(format!("{} is not one value", words.join(" "))),
            }
        }
        let mut results: BTreeMap<&str, Networks> = BTreeMap::new();
        for text in exact.values().chain([&default]) {
            if !results.contains_key(text.as_str()) {
                results.insert(text, self.text(text, depth)?);
            }
        }
        let value_at = |text: &str, at: &IpNet| results.get(text).map(|it| it.at(at).clone());
        if let [Piece::Variable("remote_addr")] = pieces(&table.source)[..] {
            // Each line is one address. Lines without an address match no client.
            let mut all = self.text(&default, depth)?;
            for (key, text) in &exact {
                let Ok(address) = key.parse::<IpAddr>() else { continue };
                let at = IpNet::from(address.to_canonical());
                all.0.extend(value_at(text, &at).map(|value| (at, value)));
            }
            return all.bounded();
        }
        let source = self.text(&table.source, depth)?;
        let texts: Vec<&str> = results.keys().copied().collect();
        let tables: Vec<&Networks> = [&source].into_iter().chain(results.values()).collect();
        Networks::of(&tables, |values| {
            let (source, results) = values.split_first()?;
            let key = match &source[..] {
                [] => "",
                [Part::Text(text)] => text.as_str(),
                _ => return None, // the text of an address
            };
            let text = exact.get(&key.to_ascii_lowercase()).unwrap_or(&default);
            let at = texts.iter().position(|known| known == text)?;
            results.get(at).map(|value| Value::clone(value))
        })
    }
}

/// The networks of a block of `geo`.
fn geo(table: &Table) -> Result<Networks, Obstacle> {
    let mut all = Networks::same(Value::new());
    let is_ranges = table.lines.iter().any(|line| line.words == ["ranges"]);
    for line in &table.lines {
        let stuck = |what: String| Err(Obstacle { place: Some(line.place), what });
        let (key, value) = match &line.words[..] {
            [word] if word == "ranges" || word == "volatile" => continue,
            [key, value] => (key.as_str(), value.as_str()),
            words => return stuck(format!("{} is not a network with a value", words.join(" "))),
        };
        // Values of `geo` have no variables.
        let value = if value.is_empty() { Value::new() } else { vec![Part::Text(value.to_owned())] };
        if let "proxy" | "delete" = key {
            return stuck(format!("{key} {} decides which address is looked up", line.words[1]));
        }
        let networks = match key {
            "default" => vec![everything(Ipv4Addr::UNSPECIFIED), everything(Ipv6Addr::UNSPECIFIED)],
            _ if is_ranges => range(key),
            _ => key
                .parse::<IpNet>()
                .or_else(|_| key.parse::<IpAddr>().map(IpNet::from))
                .map(|network| vec![network.trunc()])
                .unwrap_or_default(),
        };
        if networks.is_empty() {
            return stuck(format!("{key} is not a network"));
        }
        if is_ranges {
            // If ranges overlap, the later one counts, not the narrower one.
            all.0.retain(|old, _| old.prefix_len() == 0 || !networks.iter().any(|new| new.contains(old)));
        }
        all.0.extend(networks.into_iter().map(|network| (network, value.clone())));
        all = all.bounded()?;
    }
    Ok(all)
}

/// The networks of `10.0.0.0-10.0.0.255`; empty if that is not a range.
fn range(text: &str) -> Vec<IpNet> {
    let Some((first, last)) = text.split_once('-') else { return Vec::new() };
    let subnets = match (first.parse(), last.parse()) {
        (Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last))) if first <= last => {
            IpSubnets::from(Ipv4Subnets::new(first, last, 0))
        }
        (Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last))) if first <= last => {
            IpSubnets::from(Ipv6Subnets::new(first, last, 0))
        }
        _ => return Vec::new(),
    };
    subnets.collect()
}

fn everything(any: impl Into<IpAddr>) -> IpNet {
    let any = any.into();
    IpNet::new(any, 0).unwrap_or(IpNet::from(any))
}

fn joined(values: &[&Value]) -> Value {
    let mut value = Value::new();
    for part in values.iter().copied().flatten() {
        match (value.last_mut(), part) {
            (Some(Part::Text(last)), Part::Text(text)) => last.push_str(text),
            (_, part) => value.push(part.clone()),
        }
    }
    value
}

impl Networks {
    /// The same value for each address.
    fn same(value: Value) -> Self {
        let four = everything(Ipv4Addr::UNSPECIFIED);
        let six = everything(Ipv6Addr::UNSPECIFIED);
        Self(BTreeMap::from([(four, value.clone()), (six, value)]))
    }

    /// Applies `value`, for each address, to the values of all `tables`. Where it returns `None`, there is an
    /// obstacle.
    fn of(tables: &[&Self], mut value: impl FnMut(&[&Value]) -> Option<Value>) -> Result<Self, Obstacle> {
        let networks: BTreeSet<IpNet> = tables.iter().flat_map(|table| table.0.keys().copied()).collect();
        let mut all = BTreeMap::new();
        for network in networks {
            let values: Vec<&Value> = tables.iter().map(|table| table.at(&network)).collect();
            let Some(value) = value(&values) else {
                let what = "the text of an address is looked up".to_owned();
                return Err(Obstacle { place: None, what });
            };
            all.insert(network, value);
        }
        Self(all).bounded()
    }

    /// The value of the narrowest network around `network`, which may be itself.
    fn at(&self, network: &IpNet) -> &Value {
        const NOTHING: &Value = &Value::new();
        let around = (0..=network.prefix_len()).rev().map(|length| around(network, length));
        around.into_iter().find_map(|it| self.0.get(&it)).unwrap_or(NOTHING)
    }

    fn bounded(self) -> Result<Self, Obstacle> {
        match self.0.len() {
            0..=MOST => Ok(self),
            _ => Err(Obstacle { place: None, what: format!("there are more than {MOST} networks") }),
        }
    }

    /// Which addresses are limited by themselves; the others must have an empty key.
    fn clients(self) -> Result<Clients, Obstacle> {
        let mut limited = BTreeMap::new();
        for (network, value) in &self.0 {
            let is_limited = match &value[..] {
                [] => false,
                [Part::Address] => true,
                _ => {
                    let what = format!("the key of {network} is neither the client's address nor empty");
                    return Err(Obstacle { place: None, what });
                }
            };
            limited.insert(*network, is_limited);
        }
        let are_others_limited = limited.remove(&everything(Ipv4Addr::UNSPECIFIED)).unwrap_or_default();
        // A network with the value of the network around it is left out.
        let is_new = |network: &IpNet, is_limited: bool| {
            let wider = (0..network.prefix_len()).rev().map(|length| around(network, length));
            let outer = wider.into_iter().find_map(|it| limited.get(&it).copied());
            outer.unwrap_or(are_others_limited) != is_limited
        };
        let networks = limited.iter().map(|(network, is_limited)| (*network, *is_limited));
        Ok(Clients {
            are_others_limited,
            networks: networks.filter(|(it, limit)| is_new(it, *limit)).collect(),
        })
    }
}

/// The network of `length` bits around `network`.
fn around(network: &IpNet, length: u8) -> IpNet {
    IpNet::new(network.network(), length).map_or(*network, |it| it.trunc())
}
