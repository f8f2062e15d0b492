//! Which ranks share a host.

use std::collections::HashMap;

/// The ranks of each host. Hosts are numbered in the order of their first ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// For each rank: its host and its place among the ranks there.
    places: Vec<(usize, usize)>,
    /// All ranks, host by host.
    members: Vec<usize>,
    /// Where each host's ranks begin in `members`; one more at the end.
    starts: Vec<usize>,
    largest: usize,
    in_order: bool,
}

impl Hosts {
    /// From any number for each rank's host, equal where the host is.
    pub fn new(host_of_rank: &[usize]) -> Self {
        let mut known = HashMap::new();
        let mut ranks: Vec<Vec<usize>> = Vec::new();
        let mut places = Vec::with_capacity(host_of_rank.len());
        for (rank, name) in host_of_rank.iter().enumerate() {
            let host = *known.entry(name).or_insert(ranks.len());
            if host == ranks.len() {
                ranks.push(Vec::new());
            }
            places.push((host, ranks[host].len()));
            ranks[host].push(rank);
        }
        let mut starts = vec![0];
        starts.extend(ranks.iter().scan(0, |end, ranks| {
            *end += ranks.len();
            Some(*end)
        }));
        let members = ranks.concat();
        Hosts {
            places,
            starts,
            largest: ranks.iter().map(Vec::len).max().unwrap_or(0),
            in_order: members.is_sorted(),
            members,
        }
    }

    /// How many hosts.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// How many ranks there are on all of them.
    pub fn ranks(&self) -> usize {
        self.places.len()
    }

    /// A rank's host, and its place among the ranks there.
    pub fn place(&self, rank: usize) -> (usize, usize) {
        self.places[rank]
    }

    /// The ranks of a host, in order.
    pub fn members(&self, host: usize) -> &[usize] {
        &self.members[self.starts[host]..self.starts[host + 1]]
    }

    /// The most ranks on one host.
    pub fn largest(&self) -> usize {
        self.largest
    }

    /// Whether each host's ranks follow each other.
    pub fn in_order(&self) -> bool {
        self.in_order
    }

    /// The rank that speaks for a host: `root` on its own, else the first.
    pub fn leader(&self, host: usize, root: usize) -> usize {
        if self.places[root].0 == host {
            root
        } else {
            self.members(host)[0]
        }
    }

    /// Where each host's ranks begin, and the end of all, when they are in order.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_grouped_by_host_in_order_of_first_ranks() {
        let hosts = Hosts::new(&[7, 3, 7, 3, 9]);
        assert_eq!((hosts.len(), hosts.largest()), (3, 2));
        assert_eq!(hosts.members(0), [0, 2]);
        assert_eq!(hosts.place(3), (1, 1));
        assert!(!hosts.in_order());
        assert_eq!((hosts.leader(1, 3), hosts.leader(0, 3)), (3, 0));
        assert!(Hosts::new(&[5, 5, 1]).in_order());
    }
}
