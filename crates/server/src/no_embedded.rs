//! In place of `embedded`, in a build without the control plane.

use crate::settings::Settings;

/// There is no control plane.
#[derive(Debug)]
pub(crate) struct Embedded;

impl Embedded {
    pub(crate) const fn start(_: &mut Settings) -> Result<Self, String> {
        Ok(Self)
    }

    pub(crate) const fn lines(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    pub(crate) const fn stop(self) {}
}
