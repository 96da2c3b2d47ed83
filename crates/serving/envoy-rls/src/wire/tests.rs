use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::proto::rls;

const WIDE: Caps = Caps { descriptors: usize::MAX, entries: usize::MAX };

/// Reads `bytes` in place, and returns the struct of the general reader.
fn read(bytes: &[u8]) -> Result<rls::RateLimitRequest, WireError> {
    let mut lists = Lists::default();
    let parsed = Parsed::read(bytes, &mut lists, WIDE)?;
    let entry = |entry: &Entry<'_>| rls::Entry { key: entry.key.into(), value: entry.value.into() };
    let descriptor = |part: &ParsedDescriptor| rls::RateLimitDescriptor {
        entries: parsed.entries[part.entries.clone()].iter().map(entry).collect(),
        limit: part.limit.map(|limit| rls::RateLimitOverride {
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
        }),
        hits_addend: part.hits,
        is_negative_hits: part.is_negative,
    };
    Ok(rls::RateLimitRequest {
        domain: parsed.domain.as_bytes().into(),
        descriptors: parsed.descriptors.iter().map(descriptor).collect(),
        hits_addend: parsed.hits_addend,
    })
}

/// Both readers make the same of `bytes`, or neither makes anything.
pub(crate) fn agree(bytes: &[u8]) -> Result<(), TestCaseError> {
    let general = rls::RateLimitRequest::decode(bytes).ok().map(|mut request| {
        request.domain = String::from_utf8_lossy(&request.domain).into_owned().into();
        request
    });
    prop_assert_eq!(read(bytes).ok(), general);
    Ok(())
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => "[a-z_]{0,12}", 1 => "\\PC{0,200}"].prop_map(String::into_bytes)
}

/// Any bytes, as a client may choose them.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![2 => text(), 1 => prop::collection::vec(any::<u8>(), 0..40)]
}

fn descriptor() -> impl Strategy<Value = rls::RateLimitDescriptor> {
    let entry = (bytes(), bytes()).prop_map(|(key, value)| rls::Entry { key, value });
    let limit = (any::<u32>(), -1_i32..9)
        .prop_map(|(requests_per_unit, unit)| rls::RateLimitOverride { requests_per_unit, unit });
    (prop::collection::vec(entry, 0..4), prop::option::of(limit), any::<Option<u64>>(), any::<bool>())
        .prop_map(|(entries, limit, hits_addend, is_negative_hits)| rls::RateLimitDescriptor {
            entries,
            limit,
            hits_addend,
            is_negative_hits,
        })
}

fn request() -> impl Strategy<Value = rls::RateLimitRequest> {
    (text(), prop::collection::vec(descriptor(), 0..4), any::<u32>()).prop_map(
        |(domain, descriptors, hits_addend)| rls::RateLimitRequest { domain, descriptors, hits_addend },
    )
}

/// Fields of any number and type, nested in one another, such as no writer would make on purpose.
fn odd_fields() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(vec![]),
        prop::collection::vec(any::<u8>(), 0..12),
        Just(vec![0x80; 9]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        Just(vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
    ];
    piece.prop_recursive(4, 64, 5, |inner| {
        prop::collection::vec((0_u8..6, 0_u8..8, inner), 0..5).prop_map(|fields| {
            let mut out = Vec::new();
            for (number, wire, mut bytes) in fields {
                out.push(number << 3 | wire);
                match wire {
                    2 => out.push(bytes.len() as u8),
                    3 => bytes.push(number << 3 | 4),
                    _ => {}
                }
                out.extend(bytes);
            }
            out
        })
    })
}

proptest! {
    #[test]
    fn a_written_request_is_read_as_it_was(request in request()) {
        prop_assert_eq!(read(&request.encode_to_vec()), Ok(request));
    }

    #[test]
    fn a_damaged_request_is_read_as_the_general_reader_does(
        request in request(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = request.encode_to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if cut {
                bytes.truncate(at + 1);
            }
        }
        agree(&bytes)?;
    }

    #[test]
    fn odd_fields_are_read_as_the_general_reader_does(bytes in odd_fields()) {
        agree(&bytes)?;
    }

    #[test]
    fn any_bytes_are_read_as_the_general_reader_does(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        agree(&bytes)?;
    }
}

#[test]
fn what_is_said_twice_is_merged_or_the_last_one_holds() {
    for bytes in [
        &b"\x0a\x01a\x0a\x01b"[..],                           // domain
        &b"\x12\x08\x12\x02\x08\x05\x12\x02\x10\x01"[..],     // limit: number, then unit
        &b"\x12\x06\x1a\x02\x08\x05\x1a\x00"[..],             // addend 5, then one without a number
        &b"\x12\x0a\x0a\x08\x0a\x01a\x0a\x01b\x12\x00"[..],   // key
        &b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"[..], // an addend of 64 bits is cut to 32
        &b"\x23\x0a\x01a\x24"[..],                            // an unknown group
    ] {
        agree(bytes).expect("alike");
        read(bytes).expect("readable");
    }
}

#[test]
fn room_is_used_again_and_again() {
    let request = rls::RateLimitRequest {
        domain: "shop".into(),
        descriptors: vec![rls::RateLimitDescriptor {
            entries: vec![rls::Entry { key: "k".into(), value: "v".into() }; 3],
            ..Default::default()
        }],
        hits_addend: 0,
    };
    let bytes = request.encode_to_vec();
    let mut lists = Lists::default();
    let mut places = std::collections::BTreeSet::new();
    for _ in 0..10 {
        let parsed = Parsed::read(&bytes, &mut lists, WIDE).expect("readable");
        let descriptors = parsed.descriptors(&mut lists).expect("sensible");
        places.insert((
            parsed.entries.as_ptr().addr(),
            parsed.descriptors.as_ptr().addr(),
            descriptors.as_ptr().addr(),
        ));
        assert_eq!(parsed.request(&descriptors).hits, 1, "a missing addend means one");
        lists.put_back_descriptors(descriptors);
        parsed.put_back(&mut lists);
    }
    assert_eq!(places.len(), 1, "allocated once");
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let entry = rls::Entry { key: "k".into(), value: "v".into() };
    let plain = rls::RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let with = |limit| rls::RateLimitDescriptor { limit: Some(limit), ..plain.clone() };
    let negative = rls::RateLimitDescriptor { is_negative_hits: true, ..plain.clone() };
    let unit = |unit| rls::RateLimitOverride { requests_per_unit: 1, unit };
    for (second, want) in [
        (with(unit(0)), WireError::Unit(1)),
        (with(unit(8)), WireError::Unit(1)),
        (with(unit(-1)), WireError::Unit(1)),
        (negative, WireError::Negative(1)),
    ] {
        let descriptors = vec![plain.clone(), second];
        let bytes =
            rls::RateLimitRequest { domain: "shop".into(), descriptors, hits_addend: 1 }.encode_to_vec();
        let mut lists = Lists::default();
        let parsed = Parsed::read(&bytes, &mut lists, WIDE).expect("readable");
        assert_eq!(parsed.descriptors(&mut lists).err(), Some(want));
        let few = Caps { descriptors: 1, entries: 9 };
        assert_eq!(Parsed::read(&bytes, &mut lists, few).err(), Some(WireError::Descriptors(1)));
        let few = Caps { descriptors: 9, entries: 1 };
        assert_eq!(Parsed::read(&bytes, &mut lists, few).err(), Some(WireError::Entries(1)));
    }
}
