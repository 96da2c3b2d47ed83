//! Which fields go out: a setting such as `legacy,draft-11`.

use std::fmt;
use std::str::FromStr;

/// The generation of the IETF fields (draft-ietf-httpapi-ratelimit-headers), which changed their form twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ietf {
    /// None of them.
    #[default]
    Off,
    /// `RateLimit-Limit: 10, 10;w=60`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Draft03,
    /// `RateLimit: limit=10, remaining=3, reset=7` and `RateLimit-Policy: 10;w=60`.
    Draft07,
    /// `RateLimit: "short";r=3;t=7` and `RateLimit-Policy: "short";q=10;w=60`.
    Draft11,
}

/// Which fields go out. The default is `legacy`.
///
/// # Example
/// ```
/// # use tollgate_headers::{Ietf, Style};
/// let style: Style = "legacy,draft-11".parse()?;
/// assert_eq!(style, Style { legacy: true, ietf: Ietf::Draft11 });
/// assert_eq!("off".parse::<Style>()?.to_string(), "off");
/// # Ok::<(), tollgate_headers::UnknownStyle>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Style {
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`, and `-Retry-After` on a denial.
    pub legacy: bool,
    /// The IETF fields.
    pub ietf: Ietf,
}

impl Style {
    /// Nothing is sent, not even `Retry-After`.
    pub const OFF: Self = Self { legacy: false, ietf: Ietf::Off };
    /// The words of the setting.
    pub const WORDS: [&'static str; 5] = ["off", "legacy", "draft-03", "draft-07", "draft-11"];
}

impl Default for Style {
    fn default() -> Self {
        Self { legacy: true, ietf: Ietf::Off }
    }
}

/// A text that does not name a style.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown style of headers {0:?}: expected off, legacy, draft-03, draft-07, draft-11, or legacy and one draft as in \
     legacy,draft-11"
)]
pub struct UnknownStyle(String);

impl FromStr for Style {
    type Err = UnknownStyle;

    fn from_str(text: &str) -> Result<Self, UnknownStyle> {
        let unknown = || UnknownStyle(text.to_owned());
        if text.trim().eq_ignore_ascii_case("off") {
            return Ok(Self::OFF);
        }
        let mut style = Self::OFF;
        for word in text.split(',') {
            let ietf = match word.trim().to_ascii_lowercase().as_str() {
                "legacy" if !style.legacy => {
                    style.legacy = true;
                    continue;
                }
                "draft-03" => Ietf::Draft03,
                "draft-07" => Ietf::Draft07,
                "draft-11" => Ietf::Draft11,
                _ => return Err(unknown()),
            };
            if style.ietf != Ietf::Off {
                return Err(unknown());
            }
            style.ietf = ietf;
        }
        Ok(style)
    }
}

impl fmt::Display for Style {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ietf = match self.ietf {
            Ietf::Off => return f.write_str(if self.legacy { "legacy" } else { "off" }),
            Ietf::Draft03 => "draft-03",
            Ietf::Draft07 => "draft-07",
            Ietf::Draft11 => "draft-11",
        };
        write!(f, "{}{ietf}", if self.legacy { "legacy," } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_reads_back_as_it_is_shown_and_nonsense_is_rejected() {
        for text in
            ["off", "legacy", "draft-03", "draft-07", "draft-11", "legacy,draft-03", "legacy,draft-11"]
        {
            assert_eq!(text.parse::<Style>().map(|style| style.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(
            " Draft-07 , LEGACY".parse::<Style>().map(|s| s.to_string()).as_deref(),
            Ok("legacy,draft-07")
        );
        for text in ["", ",", "legacy,", "off,legacy", "legacy,legacy", "draft-03,draft-07", "draft-12", "on"]
        {
            text.parse::<Style>().expect_err(text);
        }
    }
}
