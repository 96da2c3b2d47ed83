//! Settings of `tollgate control`.

use std::time::Duration;

use super::control::{self, ControlSettings};
use super::fault::Fault;
use super::gather::{Sources, gather};
use super::row::Setting;
use super::table::SETTINGS;
use super::telemetry::{self, Telemetry};
use super::{serving, tls};

/// The settings of a process that runs a control plane and nothing else.
#[derive(Clone, Debug)]
pub(crate) struct ControlProcess {
    pub(crate) control: ControlSettings,
    pub(crate) telemetry: Telemetry,
    /// From the signal to the end of requests.
    pub(crate) drain_timeout: Duration,
    /// Notes for the operator.
    pub(crate) notes: Vec<String>,
}

impl ControlProcess {
    /// The rows that are flags of `tollgate control`.
    pub(crate) const ROWS: [&Setting; 12] = [
        &control::LISTEN.setting,
        &control::DATA_DIR.setting,
        &control::PUBLIC_URL.setting,
        &control::PROXY_HOPS.setting,
        &control::DISK_RESERVE.setting,
        &control::NODE_WAIT.setting,
        &control::NODE_CLIENT_CA.setting,
        &tls::CERT.setting,
        &tls::KEY.setting,
        &serving::DRAIN_TIMEOUT.setting,
        &telemetry::LOG_LEVEL.setting,
        &telemetry::LOG_FORMAT.setting,
    ];

    /// Reads every layer of `sources`.
    ///
    /// # Errors
    /// Every fault of every layer.
    pub(crate) fn read(sources: &Sources) -> Result<Self, Vec<Fault>> {
        let mut layers = gather(sources, &SETTINGS);
        let process = Self {
            control: ControlSettings::read(&mut layers),
            telemetry: Telemetry::read(&mut layers),
            drain_timeout: layers.one(&serving::DRAIN_TIMEOUT),
            notes: std::mem::take(&mut layers.notes),
        };
        layers.finish(process)
    }
}
