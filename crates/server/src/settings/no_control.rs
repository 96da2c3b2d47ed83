//! In place of `control`, in a build without it.

use super::layers::Layers;
use super::row::Setting;

/// Empty: this build has no control plane.
pub(crate) const ROWS: &[&Setting] = &[];

/// There is no control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeControl {}

impl NodeControl {
    pub(super) const fn is_given(_: &Layers) -> bool {
        false
    }

    pub(super) const fn read(_: &mut Layers) -> Option<Self> {
        None
    }
}
