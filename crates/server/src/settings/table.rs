//! Every row: the list that flags, environment names, file keys, help and documentation are made from.

use std::sync::LazyLock;

use super::row::Setting;
use super::{control, decisions, envoy_compat, rules, serving, store, telemetry, tls};
use crate::surface::SurfaceKind;
use crate::surfaces;

/// Every setting, in the order of the help text.
pub static SETTINGS: LazyLock<Vec<&'static Setting>> = LazyLock::new(|| table(&surfaces::ALL));

/// Every setting of a server with these surfaces.
pub(crate) fn table(surfaces: &[&'static SurfaceKind]) -> Vec<&'static Setting> {
    let common = [
        rules::ROWS,
        control::ROWS,
        tls::ROWS,
        serving::ROWS,
        decisions::ROWS,
        store::ROWS,
        telemetry::ROWS,
        envoy_compat::ROWS,
    ];
    let mut rows: Vec<_> = surfaces.iter().map(|kind| kind.rows).chain(common).flatten().copied().collect();
    rows.sort_by_key(|setting| setting.heading);
    rows
}
