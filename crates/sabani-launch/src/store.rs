//! What every way to the others can do.

use crate::{Departure, Error};

/// Keys and values that the ranks of a job share.
pub trait Store: Send {
    /// Says a value under a key of this rank's; others see it after the next fence.
    fn put(&mut self, key: &str, value: &str) -> Result<(), Error>;

    /// Waits until every rank has come here, and what it put before can be got.
    fn fence(&mut self) -> Result<(), Error>;

    /// What a rank has put under this key.
    fn get(&mut self, rank: u32, key: &str) -> Result<String, Error>;

    /// Ranks that have ended since this was last called, as far as the launcher tells.
    fn departures(&mut self) -> Vec<Departure> {
        Vec::new()
    }

    /// Tells the others why this rank can't go on, if the launcher can carry that.
    fn fail(&mut self, _why: &str) {}

    /// Asks the launcher to end the whole job.
    fn abort(&mut self, status: i32, why: &str);

    /// Says that this rank is done, and not lost.
    fn finish(&mut self);
}
