//! Limits of the surface: everything that a client can make grow has a cap here, and every wait a timeout.

use std::time::Duration;

use subtle::{Choice, ConstantTimeEq};

/// Password, caps and timeouts. The defaults suit a private network.
///
/// # Example
/// ```
/// # use tollgate_resp_api::{Password, RespSettings};
/// let settings = RespSettings { password: Some(Password::new("s3cret")), ..RespSettings::default() };
/// assert_eq!(settings.max_bulk_bytes, 4_194_304);
/// assert!(!format!("{settings:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug)]
pub struct RespSettings {
    /// The password of the user `default`, for `AUTH` and `HELLO … AUTH`. Without one, no client has to
    /// authenticate.
    pub password: Option<Password>,
    /// Maximum bytes of one argument. A larger one is read and dropped, and its command undecided; so with
    /// the next two.
    pub max_bulk_bytes: usize,
    /// Maximum arguments of one command, its name included.
    pub max_arguments: usize,
    /// Maximum bytes of one command as sent.
    pub max_command_bytes: usize,
    /// Maximum bytes of commands that have arrived in part, over all connections of the surface. A command
    /// that would exceed it is dropped and undecided.
    pub max_buffered_bytes: usize,
    /// Maximum bytes of buffers of connections whose clients do not take their replies, over all connections
    /// of the surface. A connection that would exceed it is closed.
    pub max_unread_bytes: usize,
    /// A connection without a command for this long is closed; zero is never, as with Redis.
    pub idle_timeout: Duration,
    /// From the first byte of a command to its last.
    pub command_timeout: Duration,
    /// A connection that reads none of its replies for this long is closed.
    pub write_timeout: Duration,
}

impl Default for RespSettings {
    fn default() -> Self {
        Self {
            password: None,
            max_bulk_bytes: 4 * 1024 * 1024,
            max_arguments: 1_024,
            max_command_bytes: 16 * 1024 * 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            max_unread_bytes: 64 * 1024 * 1024,
            idle_timeout: Duration::ZERO,
            command_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// A password: never printed, and compared in constant time.
#[derive(Clone)]
pub struct Password(Box<[u8]>);

impl Password {
    /// A password of these bytes. An empty one equals an empty guess: make sure that it is not empty.
    #[must_use]
    pub fn new(password: impl Into<Vec<u8>>) -> Self {
        Self(password.into().into_boxed_slice())
    }

    /// Whether `guess` is the password. The time that this takes depends only on the length of `guess`.
    #[must_use]
    pub fn is(&self, guess: &[u8]) -> bool {
        let same_length = self.0.len().ct_eq(&guess.len());
        let own = self.0.iter().cycle().chain(std::iter::repeat(&0));
        let same_bytes = guess.iter().zip(own).fold(Choice::from(1), |same, (a, b)| same & a.ct_eq(b));
        (same_length & same_bytes).into()
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_itself_is_the_password() {
        for (password, guess, want) in [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "ab", false),
            ("abc", "abcabc", false),
            ("abc", "", false),
            ("", "", true),
            ("", "a", false),
            ("", "\0", false),
        ] {
            assert_eq!(Password::new(password).is(guess.as_bytes()), want, "{password:?}, {guess:?}");
        }
    }
}
