//! Any number of ranks, folded to a power of two: of the first ranks, each second one stands for two
//! neighbours, so the order of ranks is kept.

/// The ranks that take part, and those that stand aside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    /// Number of those that take part: a power of two.
    pub(crate) size: usize,
    /// How many stand aside.
    pub(crate) aside: usize,
}

/// What a rank does in a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Gives its contribution to another and gets the result from it.
    Aside(usize),
    /// Takes part under a new number, for another rank, too, if there is one.
    Takes(usize, Option<usize>),
}

impl Fold {
    pub(crate) fn new(size: usize) -> Self {
        let power = 1 << size.ilog2();
        Fold {
            size: power,
            aside: size - power,
        }
    }

    /// log2 of the number of those that take part.
    pub(crate) fn levels(&self) -> usize {
        self.size.trailing_zeros() as usize
    }

    /// 1 if there is anything to fold.
    pub(crate) fn rounds(&self) -> usize {
        usize::from(self.aside > 0)
    }

    pub(crate) fn role(&self, rank: usize) -> Role {
        if rank >= 2 * self.aside {
            Role::Takes(rank - self.aside, None)
        } else if rank.is_multiple_of(2) {
            Role::Aside(rank + 1)
        } else {
            Role::Takes(rank / 2, Some(rank - 1))
        }
    }

    /// The rank with a new number.
    pub(crate) fn rank(&self, new: usize) -> usize {
        if new < self.aside {
            2 * new + 1
        } else {
            new + self.aside
        }
    }

    /// The first of the ranks that a new number stands for; with `size`, the end of all.
    pub(crate) fn first(&self, new: usize) -> usize {
        if new < self.aside {
            2 * new
        } else {
            new + self.aside
        }
    }
}
