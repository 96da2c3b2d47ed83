//! Formats an event as a line that no value can forge, break or turn around, as text and as JSON.
//!
//! In text a value is quoted and escaped unless it reads as one word. A message that has several lines, such
//! as the errors of rule files, continues on indented ones: a line that is not indented begins an event.

use std::fmt::{self, Debug, Write as _};

use tollgate_human_text::{InQuotes, Quoted, is_hidden};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes fields as `message key=value key="a value"`.
pub(crate) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut fields_writer = FieldWriter { writer, separator: "", result: Ok(()) };
        fields.record(&mut fields_writer);
        fields_writer.result
    }
}

struct FieldWriter<'w> {
    writer: Writer<'w>,
    separator: &'static str,
    result: fmt::Result,
}

impl FieldWriter<'_> {
    fn write(&mut self, field: &Field, value: impl fmt::Display) {
        let (before, after) =
            if self.writer.has_ansi_escapes() { ("\u{1b}[2m", "=\u{1b}[0m") } else { ("", "=") };
        let separator = std::mem::replace(&mut self.separator, " ");
        self.result = self.result.and_then(|()| match field.name() {
            "message" => write!(self.writer, "{separator}{value}"),
            name => write!(self.writer, "{separator}{before}{name}{after}{value}"),
        });
    }
}

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.write(field, Message(value)),
            // Quoted even if it needs no quotes, so that it cannot be taken for a number.
            _ => self.write(field, InQuotes(value)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let shown = format!("{value:?}");
        match field.name() {
            "message" => self.write(field, Message(&shown)),
            _ => self.write(field, Quoted(&shown)),
        }
    }
}

/// The text of an event.
struct Message<'a>(&'a str);

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\n' => f.write_str("\n  "),
            c if is_hidden(c) => write!(f, "{}", c.escape_default()),
            c => f.write_char(c),
        })
    }
}

/// Escapes in JSON what JSON itself need not escape: DEL and the controls after it, separators of lines,
/// marks of direction, and invisible characters.
pub(crate) struct PlainJson<E>(pub(crate) E);

impl<S, N, E> FormatEvent<S, N> for PlainJson<E>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    E: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        // The line feed is the end of the line.
        line.chars().try_for_each(|c| match c {
            // JSON writes characters above U+FFFF as two halves.
            c if is_hidden(c) && c != '\n' => {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|half| write!(writer, "\\u{half:04x}"))
            }
            c => writer.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use tracing::level_filters::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::{LogFormat, lines_to};

    /// Log output of `act`, without the timestamps.
    fn logged(format: LogFormat, act: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct To(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for To {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().write(bytes)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let to = To::default();
        let writer = to.clone();
        let layer = lines_to(format, false, move || writer.clone(), LevelFilter::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), act);
        String::from_utf8(to.0.lock().clone()).expect("text")
    }

    /// Everything that could end a line, move the cursor, reverse the text or hide in it.
    const HOSTILE: &str = "a\n\r\t\0\u{1b}[2J\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\
                           \u{2066}\u{2069}\u{ad}\u{200b}\u{2060}\u{3164}\u{feff}\u{e0041}\" level=\"INFO\\";

    fn hostile() {
        tracing::error!(
            text = HOSTILE,
            shown = %HOSTILE,
            word = %"10.0.0.1:80",
            words = %"5 per minute",
            empty = %"",
            number = 7,
            share = 0.5,
            is_done = true,
            timeout = ?Duration::from_millis(1_500),
            missing = None::<u64>,
            "said {HOSTILE}"
        );
    }

    #[test]
    fn in_text_a_value_that_is_not_one_word_is_quoted_and_nothing_hidden_is_left() {
        let text = logged(LogFormat::Text, hostile);
        let hidden: Vec<_> = text.chars().filter(|&c| c != '\n' && is_hidden(c)).collect();
        assert_eq!(hidden, [], "{text}");
        // The line feed of the message begins an indented line; the other is the end.
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].ends_with(" ERROR said a"), "{text}");
        assert!(lines[1].starts_with("  \\r\\t\\u{0}\\u{1b}[2J\\u{7f}\\u{85}"), "{text}");
        let value = "\"a\\n\\r\\t\\0\\u{1b}[2J\\u{7f}\\u{85}\\u{9b}\\u{61c}\\u{200e}\\u{200f}\\u{2028}\\u{2029}\
                     \\u{202a}\\u{202e}\\u{2066}\\u{2069}\\u{ad}\\u{200b}\\u{2060}\\u{3164}\\u{feff}\\u{e0041}\\\" level=\\\"INFO\\\\\"";
        let fields = format!(
            " text={value} shown={value} word=10.0.0.1:80 words=\"5 per minute\" empty=\"\" number=7 share=0.5 \
             is_done=true timeout=1.5s"
        );
        assert!(lines[1].ends_with(&fields), "{text}\n{fields}");
    }

    #[test]
    fn in_json_numbers_are_numbers_and_nothing_hidden_is_left() {
        let text = logged(LogFormat::Json, hostile);
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
        assert!(!text.trim_end().contains(is_hidden), "{text}");
        assert!(text.contains("\\ufeff\\udb40\\udc41"), "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).expect("one object");
        assert_eq!(line["text"], HOSTILE);
        assert_eq!(line["shown"], HOSTILE);
        assert_eq!(line["message"], format!("said {HOSTILE}"));
        assert_eq!(
            (&line["number"], &line["share"], &line["is_done"]),
            (&7.into(), &0.5.into(), &true.into())
        );
        assert_eq!(line["timeout"], "1.5s");
        assert_eq!(line.get("missing"), None);
    }

    #[test]
    fn a_message_of_several_lines_continues_on_indented_ones() {
        let text = logged(LogFormat::Text, || tracing::warn!("faulty:\nfirst\nsecond"));
        assert!(text.ends_with(" WARN faulty:\n  first\n  second\n"), "{text}");
    }
}
