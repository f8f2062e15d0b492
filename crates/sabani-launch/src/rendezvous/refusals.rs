//! Who was turned away at a rendezvous.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many are kept: anybody can come to be turned away.
const KEPT_MAX: usize = 8;

/// Those that the host has turned away, for the rank that waits in the same process.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    /// From where, why, and how often.
    first: Vec<(IpAddr, String, u64)>,
    /// How often others were turned away, once there was no more room.
    others: u64,
}

impl Refusals {
    /// Notes that somebody was turned away.
    pub fn add(&self, from: IpAddr, why: &str) {
        let mut kept = self.lock();
        let mut first = kept.first.iter_mut();
        let known = first.find(|(address, reason, _)| (*address, &reason[..]) == (from, why));
        if let Some((.., times)) = known {
            *times += 1;
        } else if kept.first.len() < KEPT_MAX {
            kept.first.push((from, why.into(), 1));
        } else {
            kept.others += 1;
        }
    }

    /// Each in a few words; a bounded number of them.
    pub fn told(&self) -> Vec<String> {
        let kept = self.lock();
        let first = kept.first.iter().map(|(from, why, times)| match times {
            1 => format!("{from}: {why}"),
            _ => format!("{from}: {why} ({times} times)"),
        });
        let others = (kept.others > 0).then(|| format!("others, {} times", kept.others));
        first.chain(others).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn no_crowd_fills_the_memory() {
        let refusals = Refusals::default();
        assert!(refusals.told().is_empty());
        for last in 0..20 {
            let from = Ipv4Addr::new(192, 0, 2, last).into();
            refusals.add(from, "another key");
            refusals.add(from, "another key");
        }
        let told = refusals.told();
        assert_eq!(told.len(), KEPT_MAX + 1);
        assert_eq!(told[0], "192.0.2.0: another key (2 times)");
        assert_eq!(told[KEPT_MAX], "others, 24 times");
    }
}
