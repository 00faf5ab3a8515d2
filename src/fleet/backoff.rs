//! The pause after a failure: doubles, with jitter, so that many contexts never ask in step.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// How long to wait before the next try.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { next: SHORTEST }
    }

    /// The next pause: a fifth more or less than 1 s, 2 s, 4 s … 60 s.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::random_range(0.8..1.2));
        self.next = (self.next * 2).min(LONGEST);
        pause
    }

    /// It answered, or the user asks at once.
    pub(super) fn reset(&mut self) {
        self.next = SHORTEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_minute_and_begin_anew() {
        let mut backoff = Backoff::new();
        let pauses: Vec<f64> = (0..10).map(|_| backoff.pause().as_secs_f64()).collect();
        assert!((0.8..1.2).contains(&pauses[0]), "{pauses:?}");
        assert!((1.6..2.4).contains(&pauses[1]), "{pauses:?}");
        assert!(pauses[7..].iter().all(|p| (48.0..72.0).contains(p)));
        backoff.reset();
        assert!(backoff.pause().as_secs_f64() < 1.2);
    }
}
