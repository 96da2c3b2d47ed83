//! In place of `node_control`, in a build without it.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use tokio::sync::watch;
use tollgate_core::Clock;
use tollgate_http_api::ControlView;
use tollgate_rule_files::{Options, RuleSet};

use crate::any_store::NodeLimiter;
use crate::settings::{NodeControl, Settings};

pub(crate) mod controlled {
    pub(crate) use super::Controlled;
}

/// There is no control plane.
#[derive(Debug)]
pub(crate) enum Controlled {}

impl Controlled {
    pub(crate) const fn reload(&self) {
        match *self {}
    }

    pub(crate) const fn last_error(&self) -> Option<Arc<str>> {
        match *self {}
    }

    pub(crate) const fn status(&self) -> watch::Receiver<()> {
        match *self {}
    }

    pub(crate) const fn view(&self) -> ControlView {
        match *self {}
    }

    pub(crate) const fn metrics(&self) -> Box<dyn Collector> {
        match *self {}
    }

    pub(crate) const fn banner(&self) -> String {
        match *self {}
    }
}

/// There is nothing to start.
pub(crate) const fn start(
    control: &NodeControl,
    _: Option<&RuleSet>,
    _: &Options,
    _: &Settings,
    _: &Arc<NodeLimiter>,
    _: &Arc<dyn Clock>,
) -> Result<Controlled, String> {
    match *control {}
}
