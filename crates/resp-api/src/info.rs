//! `INFO`: what runs here, as `key:value` lines in sections.

use std::fmt::Write as _;

use tollgate_store::Store;

use crate::api::RespApi;
use crate::reply::Reply;
use crate::session::Words;

/// The Redis whose protocol is spoken; clients look here for what they may use.
pub(crate) const REDIS_VERSION: &str = "7.4.0";

type Write<S> = fn(&RespApi<S>, &mut String);

/// Writes the sections that `words` name, or all.
pub(crate) fn write<S: Store>(words: Words<'_>, api: &RespApi<S>, reply: &mut Reply<'_>) {
    let sections: [(&str, Write<S>); 5] =
        [("Server", server), ("Clients", clients), ("Stats", stats), ("Store", store), ("Rules", rules)];
    let is_named = |section: &str| {
        words.len() < 2
            || words.from(1).any(|word| {
                [section, "all", "everything", "default"]
                    .iter()
                    .any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
            })
    };
    let mut text = String::new();
    for (name, write) in sections.into_iter().filter(|(name, _)| is_named(name)) {
        let break_ = if text.is_empty() { "" } else { "\r\n" };
        // Writing to a string does not fail, here and below.
        let _ = write!(text, "{break_}# {name}\r\n");
        write(api, &mut text);
    }
    reply.text(&text);
}

fn server<S: Store>(api: &RespApi<S>, text: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    let up = api.now().since(api.started).as_secs();
    let _ = write!(
        text,
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nserver_name:tollgate\r\ntollgate_version:{version}\r\n\
         process_id:{}\r\nuptime_in_seconds:{up}\r\nstore:{}\r\n",
        std::process::id(),
        api.limiter.store().name()
    );
}

fn clients<S: Store>(api: &RespApi<S>, text: &mut String) {
    let figures = &api.figures;
    let _ = write!(
        text,
        "connected_clients:{}\r\nhalf_command_bytes:{}\r\n",
        figures.clients(),
        figures.buffered_bytes()
    );
}

fn stats<S: Store>(api: &RespApi<S>, text: &mut String) {
    let figures = &api.figures;
    for (name, count) in [
        ("total_commands_processed", figures.commands()),
        ("decisions", figures.admitted() + figures.denied()),
        ("admitted", figures.admitted()),
        ("denied", figures.denied()),
        ("protocol_errors", figures.protocol_errors()),
        ("wrong_passwords", figures.wrong_passwords()),
        ("closed_slow_readers", figures.slow_readers()),
        ("closed_slow_writers", figures.slow_writers()),
        ("closed_idle", figures.idle()),
        ("closed_over_budget", figures.over_budget()),
    ] {
        let _ = write!(text, "{name}:{count}\r\n");
    }
}

/// Whether the store answers; each decision says it only to who asks (`WITHDEGRADED`).
fn store<S: Store>(api: &RespApi<S>, text: &mut String) {
    let _ = write!(
        text,
        "store_name:{}\r\nstore_gives_no_answer:{}\r\nstore_errors:{}\r\nlive_nodes:{}\r\n",
        api.limiter.store().name(),
        u8::from(api.limiter.is_store_failing()),
        api.limiter.metrics().store_errors(),
        api.limiter.store().live_nodes()
    );
}

fn rules<S: Store>(api: &RespApi<S>, text: &mut String) {
    let rules = api.limiter.rules();
    let policy = rules.policy();
    let _ = write!(
        text,
        "rules_version:{}\r\ndomains:{}\r\nrules:{}\r\n",
        policy.version(),
        policy.domains().len(),
        policy.rules().count()
    );
}
