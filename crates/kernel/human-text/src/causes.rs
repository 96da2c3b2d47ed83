//! Errors with their causes.

use std::error::Error;
use std::fmt;

/// The message of `error` and those of its causes: `cannot read shop.yaml: permission denied`.
///
/// A message of this workspace does not repeat the one of its `source()`. Where people read an error, they
/// read this.
///
/// # Example
/// ```
/// # use std::fmt;
/// # use tollgate_human_text::with_causes;
/// #[derive(Debug)]
/// struct Unreadable(std::io::Error);
///
/// impl fmt::Display for Unreadable {
///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
///         f.write_str("cannot read shop.yaml")
///     }
/// }
///
/// impl std::error::Error for Unreadable {
///     fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
///         Some(&self.0)
///     }
/// }
///
/// let error = Unreadable(std::io::Error::other("the disk is gone"));
/// assert_eq!(error.to_string(), "cannot read shop.yaml");
/// assert_eq!(with_causes(&error).to_string(), "cannot read shop.yaml: the disk is gone");
/// ```
pub fn with_causes<'e>(error: &'e (dyn Error + 'e)) -> impl fmt::Display + 'e {
    WithCauses(error)
}

struct WithCauses<'e>(&'e (dyn Error + 'e));

impl fmt::Display for WithCauses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[test]
fn every_cause_is_said_once_and_in_order() {
    #[derive(Debug)]
    struct Link(&'static str, Option<Box<Link>>);
    impl fmt::Display for Link {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }
    impl Error for Link {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }
    let mut error = Link("timed out", None);
    assert_eq!(with_causes(&error).to_string(), "timed out");
    for outer in ["cannot connect", "no rules"] {
        error = Link(outer, Some(Box::new(error)));
    }
    assert_eq!(with_causes(&error).to_string(), "no rules: cannot connect: timed out");
}
