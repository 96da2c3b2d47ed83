//! What one Redis-protocol surface bears: everything that a peer can make grow has a cap here, and every wait a bound.

use std::time::Duration;

use subtle::{Choice, ConstantTimeEq};

/// Password, caps and timeouts. The defaults suit a private network.
///
/// # Example
/// ```
/// # use tollgate_resp_api::{Password, RespSettings};
/// let settings = RespSettings { password: Some(Password::new("s3cret")), ..RespSettings::default() };
/// assert_eq!(settings.max_bulk_bytes, 65_536);
/// assert!(!format!("{settings:?}").contains("s3cret"));
/// ```
#[derive(Clone, Debug)]
pub struct RespSettings {
    /// What `AUTH` and `HELLO … AUTH` must say, of the user `default` or of none. Without one, nobody is asked.
    pub password: Option<Password>,
    /// Bytes of one argument, at most.
    pub max_bulk_bytes: usize,
    /// Arguments of one command, its name included, at most.
    pub max_arguments: usize,
    /// Bytes of one command as sent, at most.
    pub max_command_bytes: usize,
    /// Bytes of commands half arrived, over all connections of the surface. A connection that would go past it is closed.
    pub max_buffered_bytes: usize,
    /// A connection that asks nothing for so long is closed; zero for never, as with Redis.
    pub idle_timeout: Duration,
    /// From the first byte of a command to its last.
    pub command_timeout: Duration,
    /// A connection that takes none of its replies for so long is closed.
    pub write_timeout: Duration,
}

impl Default for RespSettings {
    fn default() -> Self {
        Self {
            password: None,
            max_bulk_bytes: 64 * 1024,
            max_arguments: 1_024,
            max_command_bytes: 256 * 1024,
            max_buffered_bytes: 64 * 1024 * 1024,
            idle_timeout: Duration::ZERO,
            command_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
        }
    }
}

/// A password: never shown, and compared in a time that tells nothing of it.
#[derive(Clone)]
pub struct Password(Box<[u8]>);

impl Password {
    /// A password of these bytes. An empty one is equal to an empty guess: make sure that there is one.
    #[must_use]
    pub fn new(password: impl Into<Vec<u8>>) -> Self {
        Self(password.into().into_boxed_slice())
    }

    /// Whether `guess` is the password. Takes a time that depends on the length of the guess alone.
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
