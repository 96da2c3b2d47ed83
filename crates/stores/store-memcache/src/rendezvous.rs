//! The server of an item among several: the one with the highest score, computed from its name and the item's
//! (rendezvous hashing).
//!
//! All nodes come to the same answer for any order of their lists, and a server that is added or removed
//! moves only the items that it gets or had. The score is the finaliser of splitmix64 over the FNV-1a hashes
//! of both names; it stays as it is, since nodes of different versions must agree. It need not resist an
//! attack: names that share a server gain nothing else.

use tollgate_store::remote::HostPort;

/// The servers' own hashes.
#[derive(Debug)]
pub(crate) struct Rendezvous(Vec<u64>);

impl Rendezvous {
    pub(crate) fn over(servers: &[HostPort]) -> Self {
        Self(servers.iter().map(|server| fnv1a(server.to_string().as_bytes())).collect())
    }

    /// Index of the server that keeps `item`.
    pub(crate) fn server(&self, item: &[u8]) -> usize {
        if self.0.len() == 1 {
            return 0;
        }
        let item = fnv1a(item);
        let scores = self.0.iter().map(|&server| mix(item ^ mix(server)));
        scores.enumerate().max_by_key(|&(at, score)| (score, self.0[at])).map_or(0, |(at, _)| at)
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers(ports: &[u16]) -> Vec<HostPort> {
        ports.iter().map(|&port| HostPort { host: "10.0.0.1".into(), port }).collect()
    }

    fn items() -> impl Iterator<Item = String> {
        (0..30_000).map(|n| format!("tollgate:shop|user={n}|minute"))
    }

    #[test]
    fn each_server_gets_its_share_whatever_the_order() {
        let one = servers(&[1, 2, 3]);
        let other = servers(&[3, 1, 2]);
        let there = Rendezvous::over(&one);
        let here = Rendezvous::over(&other);
        let mut shares = [0; 3];
        for item in items() {
            let at = there.server(item.as_bytes());
            assert_eq!(one[at], other[here.server(item.as_bytes())]);
            shares[at] += 1;
        }
        assert!(shares.iter().all(|share| (9_700..=10_300).contains(share)), "{shares:?}");
    }

    #[test]
    fn a_new_server_takes_from_all_and_moves_nothing_else() {
        let before = Rendezvous::over(&servers(&[1, 2, 3]));
        let after = Rendezvous::over(&servers(&[1, 2, 3, 4]));
        let mut moved = 0;
        for item in items() {
            let was = before.server(item.as_bytes());
            let is = after.server(item.as_bytes());
            assert!(was == is || is == 3);
            moved += u32::from(was != is);
        }
        assert!((7_200..=7_800).contains(&moved), "{moved}");
    }

    #[test]
    fn the_choice_is_the_same_in_every_version() {
        let servers = Rendezvous::over(&servers(&[1, 2, 3, 4]));
        let chosen: Vec<_> = ["a", "b", "c", "d", "e", "f"].map(|it| servers.server(it.as_bytes())).into();
        assert_eq!(chosen, GOLDEN);
    }

    const GOLDEN: [usize; 6] = [3, 1, 0, 1, 1, 3]; // worked out by another program
}
