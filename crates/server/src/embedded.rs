//! A control plane in the process of a node: for the first five minutes, and for small sites.
//!
//! It has a runtime of its own, and the node reaches it over the loopback interface, like any other node.

use std::time::Duration;

use tollgate_human_text::with_causes;

use crate::control::{self, RunningControl};
use crate::settings::{ControlAt, Settings};
use crate::worker::small_runtime;

/// Longest time for requests of the console to finish at the end.
const DRAIN: Duration = Duration::from_secs(5);

/// The control plane of this process, if it has one.
#[derive(Debug)]
pub(crate) struct Embedded(Option<RunningControl>);

impl Embedded {
    /// Starts it if `settings` ask for it, and has the node use it.
    ///
    /// # Errors
    /// The error, and the remedy.
    pub(crate) fn start(settings: &mut Settings) -> Result<Self, String> {
        let Some(node) = &mut settings.control else { return Ok(Self(None)) };
        let ControlAt::Embedded(plane) = &node.at else { return Ok(Self(None)) };
        let running = control::start(plane, true).map_err(|error| with_causes(&error).to_string())?;
        let url = running.own_url.parse().map_err(|_| format!("invalid address {}", running.own_url))?;
        node.token_file = Some(plane.data_dir.join(control::NODE_TOKEN));
        node.at = ControlAt::Url(url);
        Ok(Self(Some(running)))
    }

    /// Lines for the start screen.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        self.0.as_ref().map(|running| running.banner.lines()).unwrap_or_default()
    }

    /// Lets requests finish.
    pub(crate) fn stop(self) {
        if let (Some(mut running), Ok(runtime)) = (self.0, small_runtime()) {
            runtime.block_on(running.drain(DRAIN));
        }
    }
}
