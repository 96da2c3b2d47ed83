//! Levels of the rule language: which release of a node reads a text. A key that older nodes would reject has
//! a higher level than the keys before it.

use tollgate_human_text::{parse_rate, whole_number};

use crate::yaml_tree::{Kind, Map, YamlNode, parse};

/// The highest level that this release reads.
pub const LANGUAGE: u32 = 3;

/// Keys of a limit that are above level 1, with their level.
pub(crate) const LEVELS: [(&str, u32); 4] = [("cost", 2), ("bucket", 2), ("shadow", 2), ("post_paid", 3)];

/// Keys of a descriptor that are above level 1, with their level.
pub(crate) const DESCRIPTOR_LEVELS: [(&str, u32); 1] = [("forwarded", 3)];

/// The level of the rule language that this text needs, whether it is valid or not.
///
/// # Example
/// ```
/// # use tollgate_rule_files::language_level;
/// let rule = |limit: &str| format!("{{domain: d, descriptors: [{{key: a, rate_limit: {{{limit}}}}}]}}");
/// assert_eq!(language_level(&rule("rate: 5/s")), 1);
/// assert_eq!(language_level(&rule("rate: 5/s, cost: 2")), 2);
/// ```
#[must_use]
pub fn language_level(text: &str) -> u32 {
    // Most texts have none of these words, and need not be parsed.
    let has_key = LEVELS.iter().chain(&DESCRIPTOR_LEVELS).any(|(key, _)| text.contains(key));
    if !has_key && !has_large_number(text) {
        return 1;
    }
    match parse(text).root.as_deref() {
        Some(YamlNode { kind: Kind::Map(root), .. }) => of_descriptors(root),
        _ => 1,
    }
}

fn of_descriptors(map: &Map) -> u32 {
    let of_one = |descriptor: &YamlNode| {
        let Kind::Map(map) = &descriptor.kind else { return 1 };
        let limits = ["rate_limit", "limits"].into_iter().flat_map(|key| limits(map, key)).map(of_limit);
        let own = level_of(map, &DESCRIPTOR_LEVELS).max(of_numbers(map));
        limits.chain([own, of_descriptors(map)]).max().unwrap_or(1)
    };
    items(map, "descriptors").map(of_one).max().unwrap_or(1)
}

fn of_limit(limit: &YamlNode) -> u32 {
    let Kind::Map(map) = &limit.kind else { return 1 };
    level_of(map, &LEVELS).max(of_numbers(map))
}

/// The highest level among the keys of a map.
fn level_of(map: &Map, levels: &[(&str, u32)]) -> u32 {
    let level = |name: &str| levels.iter().find(|(key, _)| *key == name).map_or(1, |(_, level)| *level);
    map.entries.iter().map(|(key, _)| level(&key.text)).max().unwrap_or(1)
}

/// Nodes below level 3 read rates of 32 bits, and bursts of 34.
fn of_numbers(map: &Map) -> u32 {
    let is_large = |(name, most): (&str, u64)| match value(map, name) {
        Some(YamlNode { kind: Kind::Scalar(scalar), .. }) => {
            let rate = parse_rate(&scalar.text).ok();
            let (permits, burst) = rate.map_or((None, None), |rate| (Some(rate.permits), rate.burst));
            whole_number(&scalar.text).or(permits).is_some_and(|number| number > most)
                || burst.is_some_and(|burst| burst > MOST_AT_ONCE)
        }
        _ => false,
    };
    const RATE: u64 = u32::MAX as u64;
    const MOST_AT_ONCE: u64 = (1 << 34) - 2;
    let keys = [
        ("rate", RATE),
        ("requests_per_unit", RATE),
        ("limit", RATE),
        ("excess", RATE),
        ("burst", MOST_AT_ONCE),
        ("capacity", MOST_AT_ONCE),
        ("initial", MOST_AT_ONCE),
        ("overdraft", MOST_AT_ONCE),
        ("delay_after", MOST_AT_ONCE),
    ];
    if keys.into_iter().any(is_large) { 3 } else { 1 }
}

/// Whether it has a number of ten digits, as everything above 32 bits does.
fn has_large_number(text: &str) -> bool {
    text.as_bytes().chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit()).any(|run| run.len() >= 10)
}

/// The values under a key: the items of a list, or the only value.
fn limits<'a>(map: &'a Map, name: &str) -> impl Iterator<Item = &'a YamlNode> {
    items(map, name).chain(value(map, name).filter(|node| !matches!(node.kind, Kind::List(_))))
}

fn items<'a>(map: &'a Map, name: &str) -> impl Iterator<Item = &'a YamlNode> {
    let list = match value(map, name) {
        Some(YamlNode { kind: Kind::List(items), .. }) => items.as_slice(),
        _ => &[],
    };
    list.iter().map(|item| &**item)
}

fn value<'a>(map: &'a Map, name: &str) -> Option<&'a YamlNode> {
    map.entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| &**node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::knows_key_of_limit;

    #[test]
    fn each_key_above_level_1_is_known_in_its_place_and_none_is_above_what_this_release_reads() {
        for (key, level) in LEVELS {
            assert!(knows_key_of_limit(key), "{key}");
            assert!((2..=LANGUAGE).contains(&level), "{key}");
        }
        for (key, level) in DESCRIPTOR_LEVELS {
            assert!(!knows_key_of_limit(key), "{key}");
            assert!((2..=LANGUAGE).contains(&level), "{key}");
        }
    }

    #[test]
    fn a_level_is_that_of_keys_where_they_mean_something() {
        for (text, level) in [
            (
                "descriptors:\n  - {key: a, limits: [{name: x, rate: 1/s}, {name: y, rate: 2/s, shadow: true}]}",
                2,
            ),
            ("descriptors:\n  - key: a\n    descriptors: [{key: b, rate_limit: {rate: 1/s, bucket: x}}]", 2),
            ("descriptors: [{key: cost, value: bucket, rate_limit: {rate: 1/s, name: shadow}}]", 1),
            ("descriptors: [{key: a, shadow_mode: true, metadata: {cost: 1}, rate_limit: {rate: 1/s}}]", 1),
            ("descriptors: [{key: a, descriptors: [{key: b, forwarded: 2}]}]", 3),
            ("descriptors: [{key: forwarded, value: x, rate_limit: {rate: 1/s, forwarded: 1}}]", 1),
            ("descriptors: [{key: a, rate_limit: {rate: 1/s, cost: 2, post_paid: true}}]", 3),
            ("descriptors: [{key: a, rate: 4294967295/d}]", 1),
            ("descriptors: [{key: a, rate: 4294967296/d}]", 3),
            ("descriptors: [{key: a, rate_limit: {rate: 5/d burst 17179869183}}]", 3),
            ("descriptors: [{key: a, limits: [{name: x, algorithm: total, limit: 10000000000}]}]", 3),
            ("descriptors: [{key: a, value: 10000000000, rate_limit: {rate: 5/d}}]", 1),
            ("# cost: 2\ndescriptors: [{key: a}]", 1),
            ("cost: [", 1),
            ("", 1),
        ] {
            assert_eq!(language_level(text), level, "{text}");
        }
    }
}
