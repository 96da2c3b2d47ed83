//! Writing metrics of one name.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// A metric without its values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family<'a> {
    name: &'a str,
    help: &'a str,
    kind: MetricType,
}

impl<'a> Family<'a> {
    pub(crate) const fn counter(name: &'a str, help: &'a str) -> Self {
        Self { name, help, kind: MetricType::Counter }
    }

    pub(crate) const fn gauge(name: &'a str, help: &'a str) -> Self {
        Self { name, help, kind: MetricType::Gauge }
    }

    /// Writes counters of one value each, by name and help.
    pub(crate) fn counters<const N: usize>(
        to: &mut DescriptorEncoder<'_>,
        counters: [(&'a str, &'a str, u64); N],
    ) -> fmt::Result {
        counters.into_iter().try_for_each(|(name, help, value)| Self::counter(name, help).write(to, value))
    }

    /// Writes gauges of one value each, by name and help.
    pub(crate) fn gauges<const N: usize>(
        to: &mut DescriptorEncoder<'_>,
        gauges: [(&'a str, &'a str, u64); N],
    ) -> fmt::Result {
        gauges.into_iter().try_for_each(|(name, help, value)| Self::gauge(name, help).write(to, value))
    }

    /// Writes its only value.
    pub(crate) fn write(self, to: &mut DescriptorEncoder<'_>, value: u64) -> fmt::Result {
        self.encode(&mut to.encode_descriptor(self.name, self.help, None, self.kind)?, value)
    }

    /// Writes a value for each value of `label`.
    pub(crate) fn write_by<'v>(
        self,
        to: &mut DescriptorEncoder<'_>,
        label: &str,
        values: impl IntoIterator<Item = (&'v str, u64)>,
    ) -> fmt::Result {
        let mut family = to.encode_descriptor(self.name, self.help, None, self.kind)?;
        for (of, value) in values {
            self.encode(&mut family.encode_family(&[(label, of)])?, value)?;
        }
        Ok(())
    }

    fn encode(self, series: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
        match self.kind {
            MetricType::Counter => series.encode_counter::<NoLabelSet, _, u64>(&value, None),
            _ => series.encode_gauge(&value),
        }
    }
}
