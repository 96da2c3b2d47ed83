//! Entries as the rules read them, for everything beside deciding: blocks by operators, keys of denials.
//!
//! Not here: how a value is read (`reading`).

use tollgate_human_text::{ReadAddress, read_address};

use crate::domain::{Domain, Entry};
use crate::reading::{Read, Reading, ValueRoom};
use crate::rule::Rule;

/// An entry as the rules of its domain read it.
#[derive(Clone, Copy, Debug)]
pub struct EntryReading<'a> {
    /// Its value is the canonical spelling of an address if the value is one.
    pub entry: Entry<'a>,
    /// The value is the last address of a list for which no rule says which address counts. A proxy in
    /// between may have written it, so no limit may be lifted for it.
    pub is_unnamed: bool,
}

impl Rule {
    /// Whether it counts a value of the request as an address, so that [`Rule::seen`] may differ from the
    /// value sent.
    #[must_use]
    pub fn takes_addresses(&self) -> bool {
        self.levels.iter().any(|level| !level.reading.is_text())
    }

    /// An entry as this rule counts it; `index` is its place in the descriptor. Allocates nothing.
    ///
    /// # Example
    /// ```
    /// # use tollgate_policy::*;
    /// let each = DescriptorSpec::new("ip").ipv6_prefix(64).rule(RuleSpec::new(Limit::per(5,
    /// Unit::Minute)?)); let policy =
    /// PolicyBuilder::new().domain(DomainSpec::new("edge").descriptor(each)).build()?; let (rule, mut room) =
    /// (policy.rules().next().expect("a rule"), ValueRoom::new()); let seen = rule.seen(0, Entry::new("ip",
    /// "[2001:db8::1]:443"), &mut room); assert_eq!(seen.to_string(), "ip=2001:db8::1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn seen<'a>(&self, index: usize, entry: Entry<'a>, room: &'a mut ValueRoom) -> Entry<'a> {
        match self.levels.get(index) {
            Some(level) if !level.reading.is_text() => {
                Entry { key: entry.key, value: level.reading.read(entry.value, room).text }
            }
            _ => entry,
        }
    }
}

impl Domain {
    /// The entries of a descriptor as the rules read them, as many as there are `rooms`. Where the rules do
    /// not say the kind of values, an address counts as an address, and a list stays as it is. Allocates
    /// nothing.
    pub fn seen<'a>(
        &'a self,
        entries: &'a [Entry<'a>],
        rooms: &'a mut [ValueRoom],
    ) -> impl Iterator<Item = EntryReading<'a>> {
        let mut node = self.nodes.first();
        entries.iter().zip(rooms).map(move |(entry, room)| {
            let reading = node.map_or(Reading::Text, |node| node.reading_of(entry.key));
            node = node
                .and_then(|node| node.next(entry, &self.rules))
                .and_then(|(next, _)| self.nodes.get(next.node as usize));
            match reading {
                Reading::Text => EntryReading { entry: seen_alone(*entry, room), is_unnamed: false },
                reading => {
                    let Read { text, is_unnamed, .. } = reading.read(entry.value, room);
                    EntryReading { entry: Entry { key: entry.key, value: text }, is_unnamed }
                }
            }
        })
    }
}

/// An entry whose value counts as an address if it is one; a list stays as it is.
pub fn seen_alone<'a>(entry: Entry<'a>, room: &'a mut ValueRoom) -> Entry<'a> {
    match read_address(entry.value) {
        Some(ReadAddress { ip, is_of_list: false }) => Entry { key: entry.key, value: room.spell(ip) },
        _ => entry,
    }
}
