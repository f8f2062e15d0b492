//! Who may write which file now.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sabani::PeerId;

use super::path::RelativePath;

/// A sender's job.
pub type Owner = (PeerId, u32);

/// One owner for each path that is being written.
#[derive(Debug, Default)]
pub struct Leases(Mutex<HashMap<RelativePath, Owner>>);

impl Leases {
    /// Takes a path, unless somebody else has it.
    pub fn take(&self, path: &RelativePath, owner: Owner) -> bool {
        *self.lock().entry(path.clone()).or_insert(owner) == owner
    }

    /// Gives a path back.
    pub fn release(&self, path: &RelativePath) {
        self.lock().remove(path);
    }

    /// Gives back whatever somebody has.
    pub fn release_all_of(&self, owner: Owner) {
        self.lock().retain(|_, other| *other != owner);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RelativePath, Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_owner() {
        let leases = Leases::default();
        let path = RelativePath::parse(b"a").unwrap();
        assert!(leases.take(&path, (PeerId(1), 0)));
        assert!(leases.take(&path, (PeerId(1), 0)));
        assert!(!leases.take(&path, (PeerId(2), 0)));
        leases.release(&path);
        assert!(leases.take(&path, (PeerId(2), 0)));
    }
}
