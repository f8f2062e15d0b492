//! The barrier.

use super::tag::Kind;
use super::{Comm, Error};

impl Comm {
    /// Waits until all ranks have come here. Each sends ⌈log₂ size⌉ empty messages: in round `k` to the
    /// rank 2ᵏ further, and waits for the one from the rank 2ᵏ before (dissemination).
    ///
    /// # Errors
    /// [`Error::RankLost`] if a rank has ended, [`Error::Node`].
    pub fn barrier(&self) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            self.send_bytes(
                (rank + distance) % size,
                Kind::Barrier,
                distance as u32,
                &[],
            )?;
            self.recv_message(
                (rank + size - distance) % size,
                Kind::Barrier,
                distance as u32,
            )?;
            distance *= 2;
        }
        Ok(())
    }
}
