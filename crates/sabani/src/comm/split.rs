//! Communicators of some of the ranks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::collective::Series;
use super::group::Group;
use super::tag::Context;
use super::{Comm, Error};

/// Parts of a communicator. Each is a communicator like the whole one: messages and collectives of one
/// are never taken for another's, whatever their tags and order. All ranks must make the same ones at
/// the same place among their collectives. Costs one allgather of 24 bytes for each rank.
///
/// Each fails as a collective does, and with [`Error::NoMoreGroups`].
impl Comm {
    /// Divides the ranks: those with the same color form a communicator, in the order of their keys, and
    /// in today's order where those are equal. A rank that is to be in none takes a color of its own.
    ///
    /// ```
    /// # fn main() -> Result<(), sabani::comm::Error> {
    /// # let comm = sabani::Comm::init()?;
    /// // A grid with rows of four.
    /// let (row, column) = (comm.rank() / 4, comm.rank() % 4);
    /// let across = comm.split(row as u64, column as i64)?;
    /// let down = comm.split(column as u64, row as i64)?;
    /// assert_eq!((across.rank(), down.rank()), (column, row));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See above.
    pub fn split(&self, color: u64, key: i64) -> Result<Comm, Error> {
        let mut all = vec![[0; 3]; self.size()];
        let offered = u64::from(self.job.offer_context());
        self.allgather(&[[color, key as u64, offered]], &mut all)?;
        let mut ranks: Vec<_> = (0..self.size())
            .filter(|&rank| all[rank][0] == color)
            .collect();
        ranks.sort_by_key(|&rank| all[rank][1] as i64);
        // What the first one offers is taken: all know it, and nobody else offers it.
        let offered = u32::try_from(all[ranks[0]][2]).ok();
        let context = offered.and_then(Context::numbered);
        self.part(context.ok_or(Error::NoMoreGroups)?, &ranks)
    }

    /// The same ranks once more: for a library that is not to be disturbed by its caller's messages.
    ///
    /// # Errors
    /// See above.
    pub fn dup(&self) -> Result<Comm, Error> {
        self.split(0, 0)
    }

    /// The ranks that share this one's host, in order.
    ///
    /// # Errors
    /// See above.
    pub fn split_by_host(&self) -> Result<Comm, Error> {
        let (host, _) = self.group.hosts.place(self.rank());
        self.split(host as u64, 0)
    }

    /// A communicator of some of this one's ranks, under a number that they have agreed on.
    pub(super) fn part(&self, context: Context, ranks: &[usize]) -> Result<Comm, Error> {
        let members = ranks.iter().map(|&rank| Ok(self.peer(rank)?.0 as usize));
        let members = members.collect::<Result<_, Error>>()?;
        let job = Arc::clone(&self.job);
        // Who makes communicators drops some, now and then.
        job.sweep()?;
        let leftovers = Arc::clone(&job.leftovers);
        let group = Group::new(context, members, job.rank, &job.host_of, leftovers);
        Ok(Comm {
            job,
            group: Arc::new(group),
            series: Arc::new(Series::new(0, self.series.chooser())),
        })
    }
}

impl super::Job {
    /// A number for a communicator, that no other rank offers, and this one only now; `u32::MAX`
    /// if there are no more.
    pub(super) fn offer_context(&self) -> u32 {
        let count = self.offered.fetch_add(1, Relaxed).saturating_add(1);
        let context = Context::given(count, self.rank, self.host_of.len());
        context.map_or(u32::MAX, Context::number)
    }
}
