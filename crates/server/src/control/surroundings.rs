//! Surroundings of the process: room on the disk with the data, and the end of the certificate.

use std::path::Path;
use std::time::Duration;

use tollgate_control::{Control, Surroundings};
use tollgate_net::Tls;

/// Interval between checks. History stops with 200 MiB left as a rule, so that this is early enough.
const EVERY: Duration = Duration::from_secs(2);

/// Reports its observations to `control`, until the future is dropped.
pub(super) async fn watch(control: &Control, folder: &Path, reserve: u64, tls: Option<&Tls>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        control.live().surround(look(folder, reserve, tls));
    }
}

fn look(folder: &Path, reserve: u64, tls: Option<&Tls>) -> Surroundings {
    // Without an answer of the system, nothing is known of the disk.
    let disk = rustix::fs::statvfs(folder).ok();
    Surroundings {
        reserve,
        disk: disk
            .map(|it| (it.f_bavail.saturating_mul(it.f_frsize), it.f_blocks.saturating_mul(it.f_frsize))),
        certificate_ends_ms: tls.and_then(Tls::not_after).map(|seconds| seconds.saturating_mul(1_000)),
    }
}
