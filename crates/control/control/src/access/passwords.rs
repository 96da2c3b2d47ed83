//! Passwords: argon2id, at most two at once, off the runtime.

use std::sync::Arc;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use crate::error::{ControlError, Fault};

/// Fewest characters of a password.
pub(crate) const MIN: usize = 12;

/// Most characters of a password.
const MAX: usize = 256;

/// Passwords that are tried first; all of at least [`MIN`] characters.
const COMMON: &str = include_str!("passwords.txt");

/// Hashes and checks passwords, two at once: each takes 19 MiB and a core for a while.
#[derive(Debug)]
pub(crate) struct Passwords {
    places: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(2)) }
    }
}

impl Passwords {
    /// The hash to store.
    pub(crate) async fn hash(&self, password: &str) -> Result<String, ControlError> {
        let password = password.to_owned();
        self.run(move || {
            let mut salt = [0; 16];
            getrandom::fill(&mut salt).map_err(|_| ControlError::NoRandomness)?;
            let hash = argon2()?.hash_password_with_salt(password.as_bytes(), &salt);
            Ok(hash.map_err(|_| ControlError::Hash)?.to_string())
        })
        .await
    }

    /// Whether `password` belongs to `hash`. Without a hash it takes as long, and does not.
    pub(crate) async fn is(&self, password: &str, hash: Option<String>) -> Result<bool, ControlError> {
        let password = password.to_owned();
        self.run(move || {
            let Some(hash) = hash else {
                let hash = argon2()?.hash_password_with_salt(password.as_bytes(), &[0; 16]);
                return hash.map(|_| false).map_err(|_| ControlError::Hash);
            };
            let hash = PasswordHash::new(&hash).map_err(|_| ControlError::Hash)?;
            Ok(argon2()?.verify_password(password.as_bytes(), &hash).is_ok())
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ControlError::Hash)?;
        let work = tokio::task::spawn_blocking(move || {
            let worked = work();
            drop(place); // here and not by a caller that may leave
            worked
        });
        work.await.unwrap_or(Err(ControlError::Hash))
    }
}

fn argon2() -> Result<Argon2<'static>, ControlError> {
    let params = Params::new(19 * 1024, 2, 1, None).map_err(|_| ControlError::Hash)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

/// Whether `name` may have this password.
pub(crate) fn check(name: &str, password: &str) -> Result<(), Fault> {
    let count = password.chars().count();
    if count == 0 {
        return Err(Fault::Required);
    }
    if count < MIN {
        return Err(Fault::TooShort { min: MIN });
    }
    if count > MAX {
        return Err(Fault::TooLong { max: MAX });
    }
    let lower = password.to_lowercase();
    let contains_name = !name.is_empty() && lower.contains(&name.to_lowercase());
    if contains_name || COMMON.lines().any(|common| common == lower) {
        return Err(Fault::Guessable);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_itself_belongs_to_its_hash() {
        let passwords = Passwords::default();
        let hash = passwords.hash("correct horse battery").await.expect("hashed");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        for (guess, want) in [("correct horse battery", true), ("correct horse batter", false), ("", false)] {
            assert_eq!(passwords.is(guess, Some(hash.clone())).await.expect("checked"), want, "{guess}");
        }
        assert!(!passwords.is("correct horse battery", None).await.expect("checked"));
    }

    #[test]
    fn a_password_is_long_and_not_the_first_guess() {
        for (password, want) in [
            ("", Err(Fault::Required)),
            ("elevenchars", Err(Fault::TooShort { min: 12 })),
            ("twelve chars", Ok(())),
            ("十二个字的密码也可以用吗", Ok(())),
            ("Password1234", Err(Fault::Guessable)),
            ("i am ANN and you", Err(Fault::Guessable)),
            (&"x".repeat(257), Err(Fault::TooLong { max: 256 })),
        ] {
            assert_eq!(check("ann", password), want, "{password}");
        }
        assert!(
            COMMON.lines().all(|common| common.chars().count() >= MIN && common == common.to_lowercase())
        );
    }
}
