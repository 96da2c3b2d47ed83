//! The wanted fields of one line, in a buffer that is used again.

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

/// A field that is wanted, by the names that it may have, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(pub(crate) Vec<String>);

/// Where fields go, by their names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_name: HashMap<String, Vec<(usize, u8)>, RandomState>,
    /// Names of the objects that contain wanted fields.
    objects: HashSet<String, RandomState>,
    count: usize,
}

impl Names {
    pub(crate) fn new(wanted: &[Wanted]) -> Self {
        let mut by_name: HashMap<String, Vec<(usize, u8)>, RandomState> = HashMap::default();
        for (place, Wanted(names)) in wanted.iter().enumerate() {
            for (rank, name) in names.iter().enumerate() {
                by_name.entry(name.clone()).or_default().push((place, rank.min(254) as u8));
            }
        }
        let parents = |name: &str| {
            let dots = name.match_indices('.').map(|(place, _)| name[..place].to_owned());
            dots.collect::<Vec<_>>()
        };
        let objects = by_name.keys().flat_map(|name| parents(name)).collect();
        Self { by_name, objects, count: wanted.len() }
    }

    /// Whether a wanted field is in the object of this name.
    pub(crate) fn are_in(&self, object: &str) -> bool {
        !self.objects.is_empty() && self.objects.contains(object)
    }

    /// The places that want the field `name`, each with its rank.
    pub(crate) fn places(&self, name: &str) -> &[(usize, u8)] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The wanted fields of one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    text: String,
    /// Begin, end and rank of each; `u8::MAX` for a field that is not there.
    fields: Vec<(u32, u32, u8)>,
}

impl Row {
    pub(crate) fn clear(&mut self, names: &Names) {
        self.text.clear();
        self.fields.clear();
        self.fields.resize(names.count, (0, 0, u8::MAX));
    }

    /// The field at this place of the wanted fields.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&str> {
        let &(begin, end, rank) = self.fields.get(place)?;
        (rank != u8::MAX).then(|| &self.text[begin as usize..end as usize])
    }

    /// Bytes of its fields.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.fields.len() * size_of::<(u32, u32, u8)>()
    }

    /// Rank of the field's name among the names that the place accepts.
    pub(crate) fn rank(&self, place: usize) -> Option<usize> {
        self.fields.get(place).filter(|field| field.2 != u8::MAX).map(|field| usize::from(field.2))
    }

    /// The line has `value` under a name that `places` want. A field that is empty is as one that is not
    /// there.
    #[inline]
    pub(crate) fn set(&mut self, places: &[(usize, u8)], value: &str) {
        if places.is_empty() || value.is_empty() || value == "-" {
            return;
        }
        let begin = self.text.len() as u32; // a line is at most a megabyte
        self.text.push_str(value);
        let end = self.text.len() as u32;
        for &(place, rank) in places {
            if let Some(field) = self.fields.get_mut(place)
                && rank < field.2
            {
                *field = (begin, end, rank);
            }
        }
    }
}
