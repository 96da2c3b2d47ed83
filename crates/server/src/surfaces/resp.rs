//! The Redis protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tollgate_resp_api::{Password, RespApi, RespSettings as ApiSettings};

use crate::acceptor::Acceptor;
use crate::any_store::AnyStore;
use crate::family::Family;
use crate::settings::layers::Layers;
use crate::settings::parse::{self, Listen};
use crate::settings::row::Heading::{Guard, Listen as Where};
use crate::settings::row::{OptionalRow, Row, rows};
use crate::settings::secret::{Secret, secret_file};
use crate::surface::{Mount, MountContext, Mounted, SurfaceKind};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("resp", "ADDR", "127.0.0.1:6390", parse::listen)
        .help(Where, "Address of the Redis protocol; port 0 picks a free one, `unix:/path` is a Unix socket, `off` \
                      disables it");
    IDLE_TIMEOUT: Row<Duration> = Row::new("resp-idle-timeout", "DURATION", "0", parse::duration)
        .help(Where, "A connection of the Redis protocol without a command for this long is closed; 0 is never");
    PASSWORD: OptionalRow<Secret> = OptionalRow::secret("resp-password")
        .help(Guard, "Password that clients of the Redis protocol must send by AUTH before anything else");
    PASSWORD_FILE: OptionalRow<Secret> = OptionalRow::new("resp-password-file", "FILE", secret_file)
        .help(Guard, "File whose only line is the password of the Redis protocol; TOLLGATE_RESP_PASSWORD sets it directly");
}

pub(crate) static KIND: SurfaceKind =
    SurfaceKind { listen: &LISTEN, rows: ROWS, read: |layers| Arc::new(RespSettings::read(layers)) };

/// Settings of the Redis protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RespSettings {
    /// A connection without a command for this long is closed; zero is never.
    pub idle_timeout: Duration,
    /// Password that clients must send first.
    pub password: Option<Secret>,
}

impl RespSettings {
    fn read(layers: &mut Layers) -> Self {
        let password = layers.either(&PASSWORD, &PASSWORD_FILE);
        let note = password.as_ref().and_then(|password| password.note_if_short("resp-password"));
        layers.notes.extend(note);
        Self { idle_timeout: layers.one(&IDLE_TIMEOUT), password }
    }
}

impl Mount for RespSettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let node = process.node;
        let serving = process.serving;
        if process.address.is_some() && matches!(node.limiter.store(), AnyStore::Memcache { .. }) {
            tracing::warn!(
                "memcached cannot count CL.THROTTLE, THROTTLE and TOLLGATE.THROTTLE: this node counts them in its own \
                 memory, with its share of --store-nodes"
            );
        }
        let settings = ApiSettings {
            password: self.password.as_ref().map(|secret| Password::new(secret.reveal())),
            max_bulk_bytes: serving.max_body,
            max_command_bytes: serving.max_body * 4,
            max_buffered_bytes: serving.max_buffered,
            max_unread_bytes: serving.max_buffered,
            command_timeout: serving.request_timeout,
            write_timeout: serving.request_timeout,
            idle_timeout: self.idle_timeout,
            ..ApiSettings::default()
        };
        let api = Arc::new(RespApi::new(Arc::clone(&node.limiter), Arc::clone(&node.clock), settings));
        let acceptors = (0..serving.workers).map(|_| Acceptor::of(Arc::clone(&api))).collect();
        Mounted { acceptors, metrics: Some(Box::new(Metrics(api))) }
    }

    fn unprotected(&self) -> Option<&'static str> {
        self.password.is_none().then_some(
            "without a password, so anyone who can reach it can use it (set TOLLGATE_RESP_PASSWORD)",
        )
    }
}

#[derive(Debug)]
struct Metrics(Arc<RespApi<AnyStore>>);

impl Collector for Metrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = self.0.stats();
        let to = &mut to;
        let help = "Commands of the Redis protocol answered";
        Family::counter("tollgate_resp_commands", help).write(to, stats.commands())?;
        let closed = [
            ("protocol", stats.protocol_errors()),
            ("slow_reader", stats.slow_readers()),
            ("slow_writer", stats.slow_writers()),
            ("idle", stats.idle()),
            ("over_budget", stats.over_budget()),
        ];
        let help = "Connections of the Redis protocol closed for what they did, by reason";
        Family::counter("tollgate_resp_closed", help).write_by(to, "reason", closed)?;
        let help = "Attempts to authenticate with a wrong password";
        Family::counter("tollgate_resp_wrong_passwords", help).write(to, self.0.guesses().wrong())?;
        let help = "Attempts to authenticate that were rejected because the address had sent too many wrong passwords";
        Family::counter("tollgate_resp_slowed_passwords", help).write(to, self.0.guesses().slowed())?;
        let help = "Bytes of partially received commands";
        Family::gauge("tollgate_resp_buffered_bytes", help).write(to, self.0.buffered_bytes() as u64)?;
        let help = "Bytes of buffers of connections whose clients do not take their replies";
        Family::gauge("tollgate_resp_unread_bytes", help).write(to, self.0.unread_bytes() as u64)
    }
}
