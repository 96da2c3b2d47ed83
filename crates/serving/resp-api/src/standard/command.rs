//! `COMMAND`, by which clients ask which commands there are.

use crate::arguments::Arguments;
use crate::command::{Parameter, SPECS, Spec, find};
use crate::reply::ReplyWriter;

/// `COMMAND`, and its subcommands `COUNT`, `DOCS`, `INFO` and `LIST`.
pub(super) fn run(arguments: Arguments<'_>, reply: &mut ReplyWriter<'_>) {
    let Some(sub) = arguments.get(1) else {
        reply.array(SPECS.len());
        return SPECS.iter().for_each(|spec| info(spec, reply));
    };
    let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
    if is("count") {
        reply.integer(SPECS.len() as i64);
    } else if is("list") {
        reply.array(SPECS.len());
        SPECS.iter().for_each(|spec| reply.bulk(spec.name.as_bytes()));
    } else if is("info") && arguments.len() > 2 {
        reply.array(arguments.len() - 2);
        for name in arguments.from(2) {
            match find(name) {
                Some(spec) => info(spec, reply),
                None => reply.null_array(),
            }
        }
    } else if is("info") {
        reply.array(SPECS.len());
        SPECS.iter().for_each(|spec| info(spec, reply));
    } else if is("docs") {
        let named: Vec<&Spec> = match arguments.len() {
            2 => SPECS.iter().collect(),
            _ => arguments.from(2).filter_map(find).collect(),
        };
        reply.map(named.len());
        named.into_iter().for_each(|spec| docs(spec, reply));
    } else {
        reply.unknown_subcommand("COMMAND", sub);
    }
}

/// The ten elements of one command in the reply to `COMMAND`.
fn info(spec: &Spec, reply: &mut ReplyWriter<'_>) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity);
    let flags: &[&str] = match (spec.has_key, spec.allows_anonymous) {
        (true, _) => &["write", "fast"],
        (_, true) => &["fast", "no_auth"],
        _ => &["fast"],
    };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    let key = i64::from(spec.has_key);
    [key, key, key].into_iter().for_each(|place| reply.integer(place)); // first key, last key, step
    for _ in ["ACL categories", "tips", "key specifications", "subcommands"] {
        reply.array(0);
    }
}

/// One command in the reply to `COMMAND DOCS`.
fn docs(spec: &Spec, reply: &mut ReplyWriter<'_>) {
    reply.bulk(spec.name.as_bytes());
    reply.map(if spec.parameters.is_empty() { 3 } else { 4 });
    for (key, text) in [("summary", spec.summary), ("since", "0.1.0"), ("group", spec.group)] {
        reply.bulk(key.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !spec.parameters.is_empty() {
        reply.bulk(b"arguments");
        reply.array(spec.parameters.len());
        spec.parameters.iter().for_each(|it| parameter(it, reply));
    }
}

fn parameter(parameter: &Parameter, reply: &mut ReplyWriter<'_>) {
    let flags: Vec<&str> = [(parameter.is_optional, "optional"), (parameter.is_multiple, "multiple")]
        .into_iter()
        .filter_map(|(is, flag)| is.then_some(flag))
        .collect();
    reply.map(2 + usize::from(parameter.token.is_some()) + usize::from(!flags.is_empty()));
    for (key, text) in
        [("name", Some(parameter.name)), ("type", Some(parameter.kind)), ("token", parameter.token)]
    {
        if let Some(text) = text {
            reply.bulk(key.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.into_iter().for_each(|flag| reply.simple(flag));
    }
}
