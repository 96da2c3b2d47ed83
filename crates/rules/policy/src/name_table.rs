//! A map from names to small values, kept close together in memory.
//!
//! All names are in one piece of memory, and the table contains only where each begins, so a lookup among
//! many names touches few cache lines and pages. Names come from rules only, never from clients. Not here:
//! removing.

use std::hash::{BuildHasher as _, Hasher as _};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Names and their values.
#[derive(Clone, Debug)]
pub(crate) struct NameTable<T> {
    text: String,
    table: HashTable<Slot<T>>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    start: u32,
    length: u32,
    item: T,
}

impl<T> Default for NameTable<T> {
    fn default() -> Self {
        Self { text: String::new(), table: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T> Slot<T> {
    #[inline]
    fn is(&self, text: &str, name: &[u8]) -> bool {
        let start = self.start as usize;
        let length = self.length as usize;
        length == name.len() && text.as_bytes().get(start..start + length) == Some(name)
    }
}

impl<T> NameTable<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    pub(crate) fn get(&self, name: &[u8]) -> Option<&T> {
        let slot = self.table.find(hash(&self.hasher, name), |slot| slot.is(&self.text, name))?;
        Some(&slot.item)
    }

    /// All names with their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.table.iter().map(|slot| {
            let start = slot.start as usize;
            let length = slot.length as usize;
            (self.text.get(start..start + length).unwrap_or_default(), &slot.item)
        })
    }

    /// The value of `name`; a default one if the name is new. `None` if there is no room for more text.
    pub(crate) fn entry(&mut self, name: &str) -> Option<&mut T>
    where
        T: Default,
    {
        let Self { text, table, hasher } = self;
        let hash = hash(hasher, name.as_bytes());
        if table.find(hash, |slot| slot.is(text, name.as_bytes())).is_none() {
            let start = u32::try_from(text.len()).ok()?;
            let length = u32::try_from(name.len()).ok()?;
            text.push_str(name);
            let hash_of = |slot: &Slot<T>| {
                let start = slot.start as usize;
                let length = slot.length as usize;
                self::hash(hasher, text.as_bytes().get(start..start + length).unwrap_or_default())
            };
            table.insert_unique(hash, Slot { start, length, item: T::default() }, hash_of);
        }
        table.find_mut(hash, |slot| slot.is(text, name.as_bytes())).map(|slot| &mut slot.item)
    }
}

/// Without a mark of the end, since nothing else is hashed with the name.
#[inline]
fn hash(hasher: &DefaultHashBuilder, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        let mut names = NameTable::<u32>::default();
        assert!(names.is_empty() && names.get(b"").is_none());
        for i in 0..1_000 {
            *names.entry(&format!("name_{i}")).expect("there is room") = i;
        }
        *names.entry("").expect("there is room") = 7;
        *names.entry("name_5").expect("it is there") += 1;
        for i in 0..1_000 {
            assert_eq!(names.get(format!("name_{i}").as_bytes()), Some(&(i + u32::from(i == 5))));
        }
        assert_eq!((names.get(b""), names.get(b"name_"), names.get(b"name_1000")), (Some(&7), None, None));
    }
}
