//! A small generator of the same numbers for the same seed, on every machine and in every version.

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of `seed`, apart from that of every other `topic`.
    pub(crate) fn new(seed: u64, topic: &str) -> Self {
        Self(seed ^ hash(topic))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// One of `0..end`; 0 when `end` is 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 0 up to but not including 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True once in a while: `rate` of all calls.
    pub(crate) fn chance(&mut self, rate: f64) -> bool {
        rate > 0.0 && self.unit() < rate
    }

    /// One of `items`; the type's default when there is none.
    pub(crate) fn pick<T: Copy + Default>(&mut self, items: &[T]) -> T {
        let index = self.below(items.len() as u64) as usize;
        items.get(index).copied().unwrap_or_default()
    }

    /// A version-4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let bytes = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bytes.to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// A MAC address in the range of `prefix` (`52:54:00`).
    pub(crate) fn mac(&mut self, prefix: &str) -> String {
        let [a, b, c, ..] = self.next().to_be_bytes();
        format!("{prefix}:{a:02x}:{b:02x}:{c:02x}")
    }
}

/// FNV-1a: stable, unlike the standard library's hasher.
pub(crate) fn hash(text: &str) -> u64 {
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut a = Random::new(7, "x");
        let mut b = Random::new(7, "x");
        let mut c = Random::new(7, "y");
        let first = a.next();
        assert_eq!(first, b.next());
        assert_ne!(first, c.next());
        assert_eq!(a.uuid(), b.uuid());
        assert!((0.0..1.0).contains(&a.unit()));
        assert!(!a.chance(0.0));
        assert!(a.chance(1.0));
    }
}
