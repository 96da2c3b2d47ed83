//! Statistics paths in the form of envoyproxy/ratelimit, for its dashboards.

use tollgate_human_text::show_bytes;

use crate::domain::Entry;
use crate::reading::ValueRoom;
use crate::rule::{Counted, Level, Rule};

impl Rule {
    /// Appends the statistics path of this rule for a request's `entries`, without the domain: the rule's
    /// `key` or `key_value` of each level, joined by dots.
    ///
    /// A level shows the value of the request if it has `value_to_metric`, or the rule `detailed_metric`;
    /// never if it has `share_threshold`. `:`, `|` and the dots of IPv4 addresses become `_`. The number of
    /// values of requests is unbounded, so series made of them need a cap.
    pub fn write_stat(&self, entries: &[Entry<'_>], stat: &mut String) {
        for (i, level) in self.levels.iter().enumerate() {
            if i > 0 {
                stat.push('.');
            }
            match entries.get(i).filter(|_| self.shows_value(level)) {
                Some(entry) => {
                    push_clean(&show_bytes(entry.key), stat);
                    let mut room = ValueRoom::new();
                    let value = level.reading.read(entry.value, &mut room).text;
                    if !value.is_empty() {
                        stat.push('_');
                        push_clean(&show_bytes(value), stat);
                    }
                }
                None => stat.push_str(&level.stat),
            }
        }
    }

    /// True if the path depends on the request, so that one rule has several paths.
    #[must_use]
    pub fn stat_varies(&self) -> bool {
        self.levels.iter().any(|level| self.shows_value(level))
    }

    fn shows_value(&self, level: &Level) -> bool {
        (self.detailed_metric || level.stat_shows_value) && !matches!(level.counted, Counted::Shared { .. })
    }
}

/// `key` or `key_value` in the characters that a path may contain.
pub(crate) fn clean(key: &str, value: &str) -> String {
    let mut stat = String::with_capacity(key.len() + value.len() + 1);
    push_clean(key, &mut stat);
    if !value.is_empty() {
        stat.push('_');
        push_clean(value, &mut stat);
    }
    stat
}

fn push_clean(text: &str, stat: &mut String) {
    let start = stat.len();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let address = ipv4_prefix(rest);
        if address > 0 && !stat[start..].ends_with(|before: char| before.is_ascii_digit()) {
            stat.extend(rest[..address].chars().map(|c| if c == '.' { '_' } else { c }));
            rest = &rest[address..];
            continue;
        }
        stat.push(if matches!(c, ':' | '|') { '_' } else { c });
        rest = &rest[c.len_utf8()..];
    }
}

/// Bytes of the four dotted numbers that `text` begins with; 0 if it begins with anything else.
fn ipv4_prefix(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    for part in 0..4 {
        let digits = bytes[at..].iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 || digits > 3 {
            return 0;
        }
        at += digits;
        if part < 3 {
            if bytes.get(at) != Some(&b'.') {
                return 0;
            }
            at += 1;
        }
    }
    at
}
