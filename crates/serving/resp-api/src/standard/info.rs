//! `INFO`: versions, counters and state, as `key:value` lines in sections.

use std::fmt::Write as _;

use tollgate_store::Store;

use crate::arguments::Arguments;
use crate::context::Context;
use crate::reply::ReplyWriter;

/// The Redis version whose protocol this is; clients derive the available features from it.
pub(super) const REDIS_VERSION: &str = "7.4.0";

type Write<S> = fn(&Context<S>, &mut String);

/// Writes the sections that `arguments` name, or all.
pub(super) fn run<S: Store>(arguments: Arguments<'_>, context: &Context<S>, reply: &mut ReplyWriter<'_>) {
    let sections: [(&str, Write<S>); 5] =
        [("Server", server), ("Clients", clients), ("Stats", stats), ("Store", store), ("Rules", rules)];
    let is_named = |section: &str| {
        arguments.len() < 2
            || arguments.from(1).any(|word| {
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
        write(context, &mut text);
    }
    reply.text(&text);
}

fn server<S: Store>(context: &Context<S>, text: &mut String) {
    let version = env!("CARGO_PKG_VERSION");
    let up = context.now().since(context.started).as_secs();
    let _ = write!(
        text,
        "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nserver_name:tollgate\r\ntollgate_version:{version}\r\n\
         process_id:{}\r\nuptime_in_seconds:{up}\r\nstore:{}\r\n",
        std::process::id(),
        context.limiter.store().name()
    );
}

fn clients<S: Store>(context: &Context<S>, text: &mut String) {
    let stats = &context.stats;
    let _ = write!(
        text,
        "connected_clients:{}\r\nhalf_command_bytes:{}\r\n",
        stats.clients(),
        context.budget.held()
    );
}

fn stats<S: Store>(context: &Context<S>, text: &mut String) {
    let stats = &context.stats;
    for (name, count) in [
        ("total_commands_processed", stats.commands()),
        ("decisions", stats.admitted() + stats.denied()),
        ("admitted", stats.admitted()),
        ("denied", stats.denied()),
        ("protocol_errors", stats.protocol_errors()),
        ("wrong_passwords", context.guesses.wrong()),
        ("closed_slow_readers", stats.slow_readers()),
        ("closed_slow_writers", stats.slow_writers()),
        ("closed_idle", stats.idle()),
        ("closed_over_budget", stats.over_budget()),
    ] {
        let _ = write!(text, "{name}:{count}\r\n");
    }
}

/// Whether the store answers. A decision reports it only with `WITHDEGRADED`.
fn store<S: Store>(context: &Context<S>, text: &mut String) {
    let _ = write!(
        text,
        "store_name:{}\r\nstore_gives_no_answer:{}\r\nstore_errors:{}\r\nlive_nodes:{}\r\n",
        context.limiter.store().name(),
        u8::from(context.limiter.is_store_failing()),
        context.limiter.metrics().store_errors(),
        context.limiter.store().live_nodes()
    );
}

fn rules<S: Store>(context: &Context<S>, text: &mut String) {
    let rules = context.limiter.rules();
    let policy = rules.policy();
    let _ = write!(
        text,
        "rules_version:{}\r\ndomains:{}\r\nrules:{}\r\n",
        policy.version(),
        policy.domains().len(),
        policy.rules().count()
    );
}
