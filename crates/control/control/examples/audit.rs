//! Measures how fast the audit is verified.
//!
//! `cargo run --release -p tollgate-control --example audit`
#![allow(clippy::expect_used, clippy::print_stdout, reason = "an example that fails says where")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures real time")]

use std::sync::Arc;
use std::time::Instant;

use tollgate_control::{Actor, Claim, Committed, Control, ControlError, KnownNodes, Settings, settings};
use tollgate_db::TimeSource;

const ENTRIES: i64 = 200_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = Arc::new(KnownNodes::default());
    let control = Control::open(folder.path(), TimeSource::Database, nodes).await.expect("a database");
    for part in 0..ENTRIES / 10_000 {
        let written = control.commit(move |tx| {
            for n in 0..10_000 {
                let new = Settings { login_days: 1 + n % 2, ..Settings::default() };
                settings::update(tx, &Actor::system(), part * 10_000 + n, &new)?;
            }
            Ok::<_, ControlError>(Committed { value: (), documents: None })
        });
        written.await.expect("written");
    }
    for _ in 0..3 {
        let began = Instant::now();
        let chain = control.verify_audit(&Claim::program("tollgate"), |_, _| {}).await.expect("walked");
        let seconds = began.elapsed().as_secs_f64();
        println!("{chain:?} in {seconds:.2} s: {:.0} entries/s", ENTRIES as f64 / seconds);
    }
}
