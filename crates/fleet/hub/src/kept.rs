//! Bounds on the texts that a node sends: one for each text, and one for all texts of a node.

use tollgate_fleet_proto::{Fault, Hello, MAX_TEXT_BYTES};

/// The longest message of a fault that is kept, and that of a node about itself, in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 1_024;
/// Faults of a node that are kept with their messages.
const MOST_FAULTS: usize = 16;
/// Names of domains from a node's own files that are kept.
pub(crate) const MOST_DOMAINS: usize = 1_000;
/// Most bytes of names in a `Hello`: of apps that it holds, of domains, of faults without their messages.
const MOST_NAMES: usize = 1 << 20;

/// The beginning of a text, at most `most` bytes.
pub(crate) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
        text.shrink_to_fit();
    }
}

/// The faults of a node as they are kept.
pub(crate) fn faults(faults: Vec<Fault>) -> impl Iterator<Item = Fault> {
    faults.into_iter().take(MOST_FAULTS).map(|mut fault| {
        cut(&mut fault.message, LONGEST_MESSAGE);
        cut(&mut fault.path, MAX_TEXT_BYTES);
        cut(&mut fault.domain, MAX_TEXT_BYTES);
        cut(&mut fault.app, MAX_TEXT_BYTES);
        fault
    })
}

/// Cuts a node's description of itself to the bounds. Returns the number of bytes kept, not counting known
/// apps.
pub(crate) fn shorten(hello: &mut Hello, is_known: impl Fn(&str) -> bool) -> u64 {
    hello.local_domains.truncate(MOST_DOMAINS);
    hello.crashed.truncate(MOST_FAULTS);
    let of_labels = hello.labels.iter().map(|it| it.key.len() + it.value.len() + 64).sum::<usize>();
    let of_domains = hello.local_domains.iter().map(|it| it.len() + 32).sum::<usize>();
    let of_apps =
        hello.held.iter().filter(|it| !is_known(&it.app)).map(|it| it.app.len() + 256).sum::<usize>();
    let of_faults = hello.crashed.len() * LONGEST_MESSAGE;
    (of_labels + of_domains + of_apps + of_faults) as u64
}

/// # Errors
/// Why a `Hello` is not read: a name is too long, or all of them together are.
pub(crate) fn check_names(hello: &Hello) -> Result<(), &'static str> {
    let held = hello.held.iter().map(|it| &it.app);
    let crashed = hello.crashed.iter().flat_map(|it| [&it.app, &it.domain]);
    let mut all = 0;
    for name in held.chain(crashed).chain(&hello.local_domains) {
        if name.len() > MAX_TEXT_BYTES {
            return Err("a Hello with the name of an app or a domain of more than 256 bytes");
        }
        all += name.len();
    }
    if all > MOST_NAMES {
        return Err("a Hello with more than 1 MiB of names of apps and domains");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tollgate_fleet_proto::Held;

    use super::*;

    #[test]
    fn a_text_is_cut_between_letters() {
        for (text, most, kept) in
            [("abc", 3, "abc"), ("abcd", 3, "abc…"), ("a限b", 2, "a…"), ("a限b", 4, "a限…")]
        {
            let mut text = text.to_owned();
            cut(&mut text, most);
            assert_eq!(text, kept);
        }
    }

    #[test]
    fn what_is_kept_of_a_node_is_bounded_whatever_it_says() {
        let long = "x".repeat(1 << 20);
        let fault = Fault { message: long.clone(), path: long, ..Fault::default() };
        let kept: Vec<Fault> = faults(vec![fault; 500]).collect();
        assert_eq!(kept.len(), MOST_FAULTS);
        assert!(
            kept.iter().all(|it| it.message.len() + it.path.len() < LONGEST_MESSAGE + MAX_TEXT_BYTES + 8)
        );
        let mut hello = Hello { local_domains: vec!["d".to_owned(); 9_000], ..Hello::default() };
        let held = |bytes| Held { app: "a".repeat(bytes), ..Held::default() };
        hello.held = vec![held(1), held(2)];
        assert_eq!(shorten(&mut hello, |app| app == "a"), 33_000 + 258);
        for (apps, bytes, is_read) in
            [(1, 256, true), (1, 257, false), (4_096, 256, true), (4_097, 256, false)]
        {
            let hello = Hello { held: vec![held(bytes); apps], ..Hello::default() };
            assert_eq!(check_names(&hello).is_ok(), is_read, "{apps} names of {bytes} bytes");
        }
    }
}
