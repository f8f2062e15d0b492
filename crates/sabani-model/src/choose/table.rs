//! The best algorithms as a table: compiled once, looked up at each call.

use std::fmt;

use sabani_collective::{BadOverride, Choice, Collective, Context, Counts};
use serde::{Deserialize, Serialize};

use super::{Ranked, survey};
use crate::network::{Network, Transport};
use crate::task::Task;

/// The lengths that are looked at: 0 and the powers of 4 up to 16 MiB, each for those from half of it to
/// twice as much; the last one also for all that are longer.
const CLASSES: usize = 14;

/// A line of the table: from this length on, up to the next line's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The collective's name.
    pub collective: String,
    /// Number of ranks.
    pub ranks: usize,
    /// From so many bytes on, as [`Task::bytes`] counts them.
    pub bytes: usize,
    /// The algorithm, as [`Choice::parse`] reads it.
    pub choice: String,
    /// What it is expected to take.
    pub expected_ns: f64,
    /// What the documented rule's choice is expected to take; at least, if it was hopeless.
    pub rule_ns: f64,
}

/// A line that can't be used.
#[derive(Debug)]
pub enum BadRow {
    /// There is no such collective.
    Collective(String),
    /// There is no such algorithm.
    Choice(BadOverride),
    /// It is not a list of lines.
    Format(serde_json::Error),
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRow::Collective(name) => write!(f, "`{name}` is no collective"),
            BadRow::Choice(why) => write!(f, "{why}"),
            BadRow::Format(why) => write!(f, "not a table of choices: {why}"),
        }
    }
}

impl std::error::Error for BadRow {}

/// Writes a table's lines, for other ranks.
pub fn rows_to_json(rows: &[Row]) -> String {
    serde_json::to_string(rows).expect("all keys are strings")
}

/// Reads what [`rows_to_json`] has written.
///
/// # Errors
/// [`BadRow::Format`].
pub fn rows_from_json(text: &str) -> Result<Vec<Row>, BadRow> {
    serde_json::from_str(text).map_err(BadRow::Format)
}

/// Finds the best algorithms over a transport for these numbers of ranks. Before each collective,
/// `progress` is told its name and number of ranks.
///
/// # Cost
/// Some seconds of computing for each number of ranks around 64.
pub fn compile(
    network: &Network,
    transport: &Transport,
    ranks: &[usize],
    mut progress: impl FnMut(Collective, usize),
) -> Vec<Row> {
    let mut rows = Vec::new();
    for &ranks in ranks {
        for collective in Collective::ALL {
            progress(collective, ranks);
            let one_length = collective == Collective::Barrier;
            let classes = if one_length { 1 } else { CLASSES };
            let task = Task::new(collective, ranks, 0, network);
            let mut last: Option<Row> = None;
            for class in 0..classes {
                let row = row(network, transport, &task.with_bytes(bytes_of(class)), class);
                let is_new = last.as_ref().is_none_or(|last| last.choice != row.choice);
                rows.extend(is_new.then(|| row.clone()));
                last = Some(row);
            }
        }
    }
    rows
}

/// The numbers of ranks for which a table is compiled: powers of two, and all hosts.
pub fn usual_ranks(hosts: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(2), |ranks| Some(2 * ranks));
    let mut ranks: Vec<_> = powers.take_while(|&ranks| ranks < hosts).collect();
    ranks.push(hosts.max(2));
    ranks
}

/// The elements of the vector or of a block on average, if all ranks know as much.
fn elements(collective: Collective, cx: &Context) -> Option<usize> {
    let is_rooted = matches!(collective, Collective::Gather | Collective::Scatter);
    match cx.counts {
        Counts::Vector(elements) | Counts::Each(elements) => Some(elements),
        Counts::Offsets(_) if !is_rooted => Some(cx.total() / cx.size),
        _ => None,
    }
}

fn row(network: &Network, transport: &Transport, task: &Task, class: usize) -> Row {
    let ranked = survey(network, transport, task);
    let rule = ranked.iter().find(|one| one.is_rule);
    let best: &Ranked = &ranked[0];
    Row {
        collective: task.collective.name().to_owned(),
        ranks: task.ranks,
        bytes: first_of(class),
        choice: best.choice.to_string(),
        expected_ns: best.usual_ns,
        rule_ns: rule.map_or(best.usual_ns, |rule| rule.usual_ns),
    }
}

/// The length at which a class is looked at.
fn bytes_of(class: usize) -> usize {
    if class == 0 {
        0
    } else {
        1 << (2 * (class - 1))
    }
}

/// The least length of a class.
fn first_of(class: usize) -> usize {
    match class {
        0 => 0,
        1 => 1,
        _ => bytes_of(class) / 2,
    }
}

fn class_of(bytes: usize) -> usize {
    let bits = usize::BITS - bytes.leading_zeros();
    match bits {
        0 => 0,
        bits => (bits as usize / 2 + 1).min(CLASSES - 1),
    }
}

/// The table as it is looked up in.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    /// Numbers of ranks, ascending.
    ranks: Vec<usize>,
    /// For each number of ranks, collective and class of lengths.
    choices: Vec<Option<Choice>>,
}

impl Lookup {
    /// From a table's lines, those of a collective and number of ranks in the order of lengths.
    ///
    /// # Errors
    /// If one of them can't be used.
    pub fn new(rows: &[Row]) -> Result<Self, BadRow> {
        let mut ranks: Vec<_> = rows.iter().map(|row| row.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut choices = vec![None; ranks.len() * Collective::ALL.len() * CLASSES];
        for row in rows {
            let named = |collective: &Collective| collective.name() == row.collective;
            let collective = Collective::ALL.into_iter().find(named);
            let collective =
                collective.ok_or_else(|| BadRow::Collective(row.collective.clone()))?;
            let choice = Choice::parse(collective, &row.choice).map_err(BadRow::Choice)?;
            let place = ranks
                .iter()
                .position(|&ranks| ranks == row.ranks)
                .unwrap_or(0);
            let cells = (place * Collective::ALL.len() + collective as usize) * CLASSES;
            // Each line takes over from its length on.
            choices[cells + class_of(row.bytes)..cells + CLASSES].fill(Some(choice));
        }
        Ok(Lookup { ranks, choices })
    }

    /// The best choice for a situation, by the number of ranks that is nearest; `None` if the table says
    /// nothing, or names an algorithm that does not fit here.
    ///
    /// # Cost
    /// A binary search among the numbers of ranks, and a look-up.
    pub fn find(&self, collective: Collective, cx: &Context) -> Option<Choice> {
        let place = self.nearest(cx.size)?;
        let class = class_of(elements(collective, cx)? * cx.element_bytes);
        let cells = (place * Collective::ALL.len() + collective as usize) * CLASSES;
        let choice = self.choices[cells + class]?;
        choice.algorithm.schedule.fits(cx).then_some(choice)
    }

    fn nearest(&self, ranks: usize) -> Option<usize> {
        let above = self.ranks.partition_point(|&known| known < ranks);
        let Some(&next) = self.ranks.get(above) else {
            return self.ranks.len().checked_sub(1);
        };
        let Some(below) = above.checked_sub(1) else {
            return Some(above);
        };
        // Nearest by ratio.
        let is_below = ranks * ranks < self.ranks[below] * next;
        Some(if is_below { below } else { above })
    }
}

#[cfg(test)]
mod tests {
    use sabani_collective::{Parameters, choose};

    use super::*;
    use crate::testing::switched;

    fn row(collective: &str, ranks: usize, bytes: usize, choice: &str) -> Row {
        Row {
            collective: collective.to_owned(),
            ranks,
            bytes,
            choice: choice.to_owned(),
            expected_ns: 1.0,
            rule_ns: 1.0,
        }
    }

    #[test]
    fn every_length_has_its_class() {
        assert_eq!([0, 1, 2, 7, 8, 31, 32].map(class_of), [0, 1, 2, 2, 3, 3, 4]);
        assert_eq!(class_of(usize::MAX), CLASSES - 1);
        for class in 0..CLASSES {
            assert_eq!(class_of(first_of(class)), class);
            assert_eq!(class_of(bytes_of(class)), class);
        }
    }

    #[test]
    fn the_nearest_number_of_ranks_and_the_line_before_are_found() {
        let rows = [
            row("bcast", 4, 0, "binomial"),
            row("bcast", 16, 0, "knomial:radix=4"),
            row("bcast", 16, 32, "chain"),
            row("allreduce", 16, 0, "ring"),
        ];
        assert_eq!(rows_from_json(&rows_to_json(&rows)).unwrap(), rows);
        let lookup = Lookup::new(&rows).unwrap();
        let find = |ranks, bytes| {
            let cx = Context::new(ranks, Counts::Vector(bytes));
            let found = lookup.find(Collective::Bcast, &cx);
            found.map(|choice| choice.to_string())
        };
        assert_eq!(find(2, 1000).unwrap(), "binomial");
        assert_eq!(find(7, 1000).unwrap(), "binomial");
        assert_eq!(find(9, 31).unwrap(), "knomial:radix=4");
        assert_eq!(find(1000, 32).unwrap(), "chain");
        let barrier = Context::new(4, Counts::Vector(0));
        assert_eq!(lookup.find(Collective::Barrier, &barrier), None);
        let in_order = Context {
            commutative: false,
            ..Context::new(16, Counts::Vector(5))
        };
        assert_eq!(
            lookup.find(Collective::Allreduce, &in_order),
            None,
            "a ring needs no order"
        );
        assert_eq!(Lookup::default().find(Collective::Barrier, &barrier), None);
    }

    #[test]
    fn what_only_some_ranks_know_does_not_decide() {
        let rows = [row("gather", 4, 0, "linear")];
        let lookup = Lookup::new(&rows).unwrap();
        let offsets = [0, 1, 2, 3, 4];
        for counts in [Counts::Own(1), Counts::Offsets(&offsets)] {
            assert_eq!(
                lookup.find(Collective::Gather, &Context::new(4, counts)),
                None
            );
        }
        let each = Context::new(4, Counts::Each(1));
        assert!(lookup.find(Collective::Gather, &each).is_some());
    }

    #[test]
    fn lines_that_can_not_be_used_say_why() {
        let why = |row| Lookup::new(&[row]).unwrap_err().to_string();
        assert!(why(row("everybody", 2, 0, "x")).contains("everybody"));
        assert!(why(row("bcast", 2, 0, "rope")).contains("binomial"));
    }

    #[test]
    fn a_compiled_table_never_does_worse_than_the_rule_by_its_own_measure() {
        let network = switched(4);
        let transport = &network.transports["tcp"];
        let mut told = 0;
        let rows = compile(&network, transport, &[4], |_, _| told += 1);
        assert_eq!(told, Collective::ALL.len());
        assert!(rows.iter().all(|row| row.expected_ns <= row.rule_ns));
        let lookup = Lookup::new(&rows).unwrap();
        for collective in Collective::ALL {
            for bytes in [0, 100, 1 << 20] {
                let task = Task::new(collective, 4, bytes, &network);
                let cx = task.context(Parameters::default());
                let found = lookup.find(collective, &cx).unwrap();
                assert!(found.algorithm.schedule.fits(&cx));
                let rule = choose(collective, &cx);
                assert_eq!(found.algorithm.collective, rule.algorithm.collective);
            }
        }
    }

    #[test]
    fn tables_are_for_powers_of_two_and_all_hosts() {
        assert_eq!(usual_ranks(1), [2]);
        assert_eq!(usual_ranks(8), [2, 4, 8]);
        assert_eq!(usual_ranks(12), [2, 4, 8, 12]);
    }
}
