//! `CONFIG GET`: reports that nothing is persisted, for clients that look for it. There is nothing else to
//! get.

use crate::arguments::Arguments;
use crate::reply::{ReplyWriter, wrong_number_of_arguments};

/// Settings of a Redis without persistence.
const SETTINGS: [(&str, &str); 2] = [("save", ""), ("appendonly", "no")];

pub(super) fn run(arguments: Arguments<'_>, reply: &mut ReplyWriter<'_>) {
    match arguments.get(1) {
        Some(sub) if sub.eq_ignore_ascii_case(b"get") && arguments.len() > 2 => {
            let is_wanted = |name: &str| arguments.from(2).any(|it| it.eq_ignore_ascii_case(name.as_bytes()));
            let settings = SETTINGS.map(|setting| Some(setting).filter(|(name, _)| is_wanted(name)));
            reply.map(settings.iter().flatten().count());
            for (name, value) in settings.into_iter().flatten() {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        Some(sub) if sub.eq_ignore_ascii_case(b"get") => reply.error(wrong_number_of_arguments("config|get")),
        sub => reply.unknown_subcommand("CONFIG", sub.unwrap_or_default()),
    }
}
