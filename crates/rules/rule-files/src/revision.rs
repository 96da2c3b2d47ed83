//! The revision of rule files: a digest of their names and texts.

use sha2::{Digest as _, Sha256};

use crate::folder::Reading;
use crate::rule_file::RuleFile;

/// Twelve hexadecimal digits that change with the files: with their names, their texts, or the error of
/// reading them.
pub(crate) fn revision(reading: &Reading) -> String {
    match reading {
        Ok(files) => revision_of(files),
        Err(error) => digest([error.to_string().as_bytes()].into_iter()),
    }
}

/// The revision of these files.
pub(crate) fn revision_of(files: &[RuleFile]) -> String {
    digest(files.iter().flat_map(|file| [file.name.as_os_str().as_encoded_bytes(), file.text.as_bytes()]))
}

/// The digest of one text.
pub(crate) fn digest_of(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

fn digest<'a>(items: impl Iterator<Item = &'a [u8]>) -> String {
    let mut hash = Sha256::new();
    for item in items {
        hash.update((item.len() as u64).to_be_bytes());
        hash.update(item);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
