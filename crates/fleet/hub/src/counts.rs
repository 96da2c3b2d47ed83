//! Numbers of nodes, as metrics show them. Not here: the state of each (`node_state`).

use crate::node_state::{Liveness, Shortfall};

/// Numbers of known nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCounts {
    pub live: u64,
    pub unresponsive: u64,
    pub lost: u64,
    /// Nodes with an open stream.
    pub streams: u64,
    /// Nodes that have rejected a version which they should have.
    pub rejecting: u64,
    /// Nodes with another version of an app than they should have.
    pub behind: u64,
}

impl NodeCounts {
    pub(crate) const fn add(&mut self, liveness: Liveness, has_stream: bool, shortfall: Shortfall) {
        let of_its_kind = match liveness {
            Liveness::Live => &mut self.live,
            Liveness::Unresponsive => &mut self.unresponsive,
            Liveness::Lost => &mut self.lost,
        };
        *of_its_kind += 1;
        self.streams += has_stream as u64;
        self.rejecting += shortfall.has_rejected as u64;
        self.behind += shortfall.is_behind as u64;
    }
}
