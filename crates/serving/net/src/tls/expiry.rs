//! Reads one date of a certificate. This is not a parser of certificates: rustls validates them.

use rustls::pki_types::CertificateDer;

/// The end of the certificate's validity, in seconds since 1970 began.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<i64> {
    // Certificate { tbsCertificate { [0] version, serial, algorithm, issuer, validity { notBefore, notAfter
    // }, …
    let (_, certificate, _) = element(certificate)?;
    let (_, mut fields, _) = element(certificate)?;
    if fields.first() == Some(&0xa0) {
        fields = element(fields)?.2;
    }
    for _serial_algorithm_issuer in 0..3 {
        fields = element(fields)?.2;
    }
    let (_, validity, _) = element(fields)?;
    let (_, _, rest) = element(validity)?;
    let (tag, date, _) = element(rest)?;
    let date = std::str::from_utf8(date).ok()?;
    let date = match tag {
        // UTCTime has two digits of the year, of 1950 to 2049.
        0x17 => format!("{}{date}", if date < "50" { "20" } else { "19" }),
        0x18 => date.to_owned(),
        _ => return None,
    };
    let date = jiff::civil::DateTime::strptime("%Y%m%d%H%M%SZ", date).ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

/// The first element of DER: its tag, its contents, and the bytes after it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, length], mut rest) = der.split_first_chunk()?;
    let mut length = usize::from(length);
    if length >= 0x80 {
        let bytes;
        (bytes, rest) = rest.split_at_checked(length - 0x80)?;
        length = bytes
            .iter()
            .try_fold(0_usize, |length, &byte| Some(length.checked_mul(256)? | usize::from(byte)))?;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_date_or_none(der: Vec<u8>) {
            let _ = not_after(&CertificateDer::from(der));
        }

        #[test]
        fn a_damaged_certificate_is_a_date_or_none(place in 0..46_usize, byte: u8, length in 0..=40_usize) {
            // { { [0] { 2 }, serial, algorithm, issuer, { "200101000000Z", "300101000000Z" } } }
            let whole = b"\x30\x2c\x30\x2a\xa0\x01\x02\x02\x01\x01\x30\x00\x30\x00\x30\x1e\x17\x0d200101000000Z\x17\x0d300101000000Z";
            prop_assert_eq!(not_after(&whole.as_slice().into()), Some(1_893_456_000));
            let mut damaged = whole.to_vec();
            damaged[place] = byte;
            damaged.truncate(damaged.len() - length);
            let _ = not_after(&CertificateDer::from(damaged));
        }
    }
}
