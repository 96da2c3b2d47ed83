//! Commands of a batch that wait to be decided together.

use tollgate_limiter::MAX_IN_FLIGHT;

use crate::arguments::Arguments;
use crate::parse::ArgumentRange;
use crate::turn::Pushed;

/// Arguments of commands, each with an `A`, in a buffer that is kept from batch to batch.
#[derive(Debug)]
pub(crate) struct Pending<A> {
    /// The arguments of all commands.
    spans: Vec<ArgumentRange>,
    /// Where those of each command end in `spans`.
    ends: Vec<(usize, A)>,
}

impl<A> Default for Pending<A> {
    fn default() -> Self {
        Self { spans: Vec::new(), ends: Vec::new() }
    }
}

impl<A: Copy> Pending<A> {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Adds a command.
    pub(crate) fn push(&mut self, arguments: Arguments<'_>, action: A) -> Pushed {
        if self.ends.len() >= MAX_IN_FLIGHT {
            return Pushed::Full;
        }
        self.spans.extend_from_slice(arguments.spans());
        self.ends.push((self.spans.len(), action));
        Pushed::Added
    }

    /// The commands, which were read from `input`, in their order.
    pub(crate) fn commands<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = (Arguments<'a>, A)> {
        let mut start = 0;
        self.ends.iter().map(move |&(end, action)| {
            let arguments = Arguments::new(input, &self.spans[start..end]);
            start = end;
            (arguments, action)
        })
    }

    /// Forgets all commands.
    pub(crate) fn clear(&mut self) {
        self.spans.clear();
        self.ends.clear();
    }
}
