//! What a program or its user wants instead of the rule.

use std::fmt;
use std::str::FromStr;

use super::{Choice, choose};
use crate::algorithms::{Algorithm, Collective};
use crate::context::{Context, Parameters};
use crate::step::Mode;

/// Another algorithm or other parameters for a collective; what is not given is left to the rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Override {
    /// The algorithm. Where it does not fit, the rule chooses.
    pub algorithm: Option<&'static Algorithm>,
    /// The radix of trees: 2 or more.
    pub radix: Option<usize>,
    /// Bytes of a segment: 1 or more.
    pub segment_bytes: Option<usize>,
    /// Rounds under way: 1 or more.
    pub window: Option<usize>,
    /// When messages may leave.
    pub mode: Option<Mode>,
}

/// Overrides for some collectives. They must be the same on all ranks; where they are not, the
/// collectives' fingerprints differ, which is an error and not a hang.
///
/// As text: for each collective its name, and an algorithm or parameters or both, such as
/// `bcast=chain:segment=128KiB:window=8,alltoall=windowed:mode=rendezvous,reduce=:segment=8KiB`.
/// Parameters are `radix`, `segment` (bytes, or with `KiB` or `MiB`), `window` and `mode` (`eager` or
/// `rendezvous`).
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    given: Vec<(Collective, Override)>,
}

impl Overrides {
    /// Adds one, in place of an earlier one for the same collective.
    pub fn set(&mut self, collective: Collective, given: Override) {
        self.given.retain(|(other, _)| *other != collective);
        self.given.push((collective, given));
    }

    /// Chooses an algorithm and its parameters.
    ///
    /// # Cost
    /// As [`choose`].
    pub fn choose(&self, collective: Collective, cx: &Context) -> Choice {
        self.apply(collective, cx, choose(collective, cx))
    }

    /// Changes what was chosen as they want it.
    ///
    /// # Cost
    /// A comparison for each override.
    pub fn apply(&self, collective: Collective, cx: &Context, mut choice: Choice) -> Choice {
        let mut given = self.given.iter().filter(|(other, _)| *other == collective);
        let Some((_, given)) = given.next() else {
            return choice;
        };
        if let Some(algorithm) = given
            .algorithm
            .filter(|algorithm| algorithm.schedule.fits(cx))
        {
            choice.algorithm = algorithm;
        }
        let parameters = &mut choice.parameters;
        parameters.radix = given.radix.unwrap_or(parameters.radix);
        parameters.segment_bytes = given.segment_bytes.unwrap_or(parameters.segment_bytes);
        parameters.window = given.window.unwrap_or(parameters.window);
        parameters.mode = given.mode.unwrap_or(parameters.mode);
        choice.parameters = choice.algorithm.own(choice.parameters);
        choice
    }
}

impl Choice {
    /// Reads what is written like an override, such as `chain:segment=128KiB`. What is not given has its
    /// default, whatever the rule says; so has what changes nothing.
    ///
    /// # Errors
    /// If there is no such algorithm or parameter.
    pub fn parse(collective: Collective, text: &str) -> Result<Self, BadOverride> {
        let given = parse(collective, text)?;
        let names = || collective.algorithms().map(|algorithm| algorithm.name);
        let expected = || format!("one of {}", names().collect::<Vec<_>>().join(", "));
        let default = Parameters::default();
        let algorithm = given.algorithm.ok_or_else(|| bad(text, expected()))?;
        Ok(Choice {
            algorithm,
            parameters: algorithm.own(Parameters {
                radix: given.radix.unwrap_or(default.radix),
                segment_bytes: given.segment_bytes.unwrap_or(default.segment_bytes),
                window: given.window.unwrap_or(default.window),
                mode: given.mode.unwrap_or(default.mode),
            }),
        })
    }

    /// All of it in words, defaults included: unlike what [`Display`](fmt::Display) writes, as an override it leaves nothing to the rule.
    pub fn in_full(&self) -> String {
        let Parameters {
            radix,
            segment_bytes,
            window,
            mode,
        } = self.parameters;
        let own = self.algorithm.parameters().iter().map(|name| match *name {
            "radix" => format!(":radix={radix}"),
            "segment" => format!(":segment={segment_bytes}"),
            "window" => format!(":window={window}"),
            other => unreachable!("no parameter is called {other}"),
        });
        let mode = match mode {
            Mode::Eager => ":mode=eager",
            Mode::Rendezvous => ":mode=rendezvous",
        };
        let own: String = own.collect();
        format!("{}{own}{mode}", self.algorithm.name)
    }
}

/// As [`Choice::parse`] reads it.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.name)?;
        let (ours, default) = (&self.parameters, Parameters::default());
        if ours.radix != default.radix {
            write!(f, ":radix={}", ours.radix)?;
        }
        if ours.segment_bytes != default.segment_bytes {
            match ours.segment_bytes {
                bytes if bytes.is_multiple_of(1 << 10) => write!(f, ":segment={}KiB", bytes >> 10)?,
                bytes => write!(f, ":segment={bytes}")?,
            }
        }
        if ours.window != default.window {
            write!(f, ":window={}", ours.window)?;
        }
        if ours.mode != default.mode {
            f.write_str(":mode=rendezvous")?;
        }
        Ok(())
    }
}

/// What can't be read as an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOverride {
    /// The piece of text.
    pub text: String,
    /// What would have been right.
    pub expected: String,
}

impl fmt::Display for BadOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: expected {}", self.text, self.expected)
    }
}

impl std::error::Error for BadOverride {}

fn bad(text: &str, expected: impl Into<String>) -> BadOverride {
    BadOverride {
        text: text.to_owned(),
        expected: expected.into(),
    }
}

impl FromStr for Overrides {
    type Err = BadOverride;

    fn from_str(text: &str) -> Result<Self, BadOverride> {
        let mut overrides = Overrides::default();
        let pieces = text.split(',').map(str::trim);
        for piece in pieces.filter(|piece| !piece.is_empty()) {
            let (name, wanted) = piece
                .split_once('=')
                .ok_or_else(|| bad(piece, "COLLECTIVE=ALGORITHM:PARAMETER=VALUE"))?;
            let named = |collective: &Collective| collective.name() == name;
            let collective = Collective::ALL.into_iter().find(named).ok_or_else(|| {
                let names = Collective::ALL.map(Collective::name);
                bad(name, format!("one of {}", names.join(", ")))
            })?;
            let given = parse(collective, wanted)?;
            expect_own(wanted, &given)?;
            overrides.set(collective, given);
        }
        Ok(overrides)
    }
}

fn parse(collective: Collective, wanted: &str) -> Result<Override, BadOverride> {
    let mut given = Override::default();
    let mut pieces = wanted.split(':');
    let name = pieces.next().unwrap_or_default();
    if !name.is_empty() {
        let algorithm = collective.algorithm(name).ok_or_else(|| {
            let names = collective.algorithms().map(|algorithm| algorithm.name);
            let names: Vec<_> = names.collect();
            bad(name, format!("one of {}", names.join(", ")))
        })?;
        given.algorithm = Some(algorithm);
    }
    for piece in pieces {
        match piece.split_once('=') {
            Some(("radix", value)) => given.radix = Some(number(value, 2)?),
            Some(("segment", value)) => {
                let bytes = "bytes, as in 65536, 64KiB or 1MiB";
                let segment = number(value, 1).map_err(|_| bad(piece, bytes))?;
                given.segment_bytes = Some(segment);
            }
            Some(("window", value)) => given.window = Some(number(value, 1)?),
            Some(("mode", "eager")) => given.mode = Some(Mode::Eager),
            Some(("mode", "rendezvous")) => given.mode = Some(Mode::Rendezvous),
            _ => {
                let expected = "radix=N, segment=BYTES, window=N or mode=eager|rendezvous";
                return Err(bad(piece, expected));
            }
        }
    }
    Ok(given)
}

/// Refuses parameters that the algorithm does not have.
fn expect_own(wanted: &str, given: &Override) -> Result<(), BadOverride> {
    let Some(algorithm) = given.algorithm else {
        return Ok(());
    };
    let own = algorithm.parameters();
    let named = [
        ("radix", given.radix),
        ("segment", given.segment_bytes),
        ("window", given.window),
    ];
    let mut foreign = named
        .into_iter()
        .filter(|(name, value)| value.is_some() && !own.contains(name));
    let Some((name, _)) = foreign.next() else {
        return Ok(());
    };
    let has: Vec<_> = own.iter().copied().chain(["mode"]).collect();
    let (algorithm, has) = (algorithm.name, has.join(", "));
    Err(bad(
        wanted,
        format!("no `{name}`, which changes nothing of {algorithm}: it has {has}"),
    ))
}

fn number(text: &str, least: usize) -> Result<usize, BadOverride> {
    let units = [("KiB", 1 << 10), ("MiB", 1 << 20)];
    let with_unit = units.iter().find_map(|(unit, factor)| {
        let digits = text.strip_suffix(unit)?;
        Some((digits, *factor))
    });
    let (digits, factor) = with_unit.unwrap_or((text, 1));
    let number = digits.parse::<usize>().ok();
    let number = number.and_then(|number| number.checked_mul(factor));
    number
        .filter(|number| *number >= least)
        .ok_or_else(|| bad(text, format!("a number from {least} on")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counts;

    #[test]
    fn what_is_given_wins_and_the_rest_is_left_to_the_rule() {
        let text = "bcast=split_binary:segment=8KiB:window=3, reduce=:mode=rendezvous";
        let overrides: Overrides = text.parse().unwrap();
        let cx = Context::new(9, Counts::Vector(100));
        let bcast = overrides.choose(Collective::Bcast, &cx);
        assert_eq!(bcast.algorithm.name, "split_binary");
        assert_eq!(
            (bcast.parameters.segment_bytes, bcast.parameters.window),
            (8192, 3)
        );
        let reduce = overrides.choose(Collective::Reduce, &cx);
        assert_eq!(reduce.algorithm.name, "knomial");
        assert_eq!(
            (reduce.parameters.mode, reduce.parameters.radix),
            (Mode::Rendezvous, 3)
        );
    }

    #[test]
    fn an_algorithm_that_does_not_fit_is_left_to_the_rule() {
        let overrides: Overrides = "allreduce=ring".parse().unwrap();
        let mut cx = Context::new(9, Counts::Vector(100));
        assert_eq!(
            overrides.choose(Collective::Allreduce, &cx).algorithm.name,
            "ring"
        );
        cx.commutative = false;
        let chosen = overrides.choose(Collective::Allreduce, &cx);
        assert_eq!(chosen.algorithm.name, "recursive_doubling");
    }

    #[test]
    fn a_choice_is_read_as_it_is_written() {
        for text in [
            "binomial",
            "chain:segment=128KiB:window=8",
            "knomial:radix=8:mode=rendezvous",
        ] {
            let choice = Choice::parse(Collective::Bcast, text).unwrap();
            assert_eq!(choice.to_string(), text);
        }
        // The rule's parameters play no part.
        let chain = Choice::parse(Collective::Reduce, "chain").unwrap();
        assert_eq!(chain.parameters, Parameters::default());
        let error = Choice::parse(Collective::Bcast, ":window=2").unwrap_err();
        assert!(error.to_string().contains("scatter_allgather"), "{error}");
    }

    #[test]
    fn a_choice_in_full_leaves_nothing_to_the_rule() {
        let hosts = crate::Hosts::new(&[0, 0, 1, 1, 2, 2, 3, 3]);
        let others = Parameters {
            radix: 5,
            segment_bytes: 1000,
            window: 3,
            mode: Mode::Rendezvous,
        };
        let all = crate::algorithms::ALGORITHMS.iter();
        let with_each =
            |algorithm| [Parameters::default(), others].map(|parameters| (algorithm, parameters));
        for (algorithm, parameters) in all.flat_map(with_each) {
            let choice = Choice {
                algorithm,
                parameters: algorithm.own(parameters),
            };
            let wish = format!("{}={}", algorithm.collective, choice.in_full());
            let wish: Overrides = wish.parse().unwrap();
            for elements in [1, 1 << 12, 1 << 20] {
                let cx = Context {
                    hosts: Some(&hosts),
                    ..Context::new(8, Counts::Vector(elements))
                };
                if algorithm.schedule.fits(&cx) {
                    let chosen = wish.choose(algorithm.collective, &cx);
                    assert_eq!(chosen, choice, "{elements} elements");
                }
            }
        }
        // As it is written for people, it does: the rule has chains in other segments.
        let short: Overrides = "bcast=chain".parse().unwrap();
        let cx = Context::new(8, Counts::Vector(1 << 18));
        let chosen = short.choose(Collective::Bcast, &cx);
        assert_ne!(chosen.parameters, Parameters::default());
    }

    #[test]
    fn what_can_not_be_read_is_named_with_what_could() {
        for (text, expected) in [
            ("broadcast=chain", "bcast"),
            ("bcast=rope", "scatter_allgather"),
            ("bcast=chain:window=0", "from 1 on"),
            ("bcast=chain:speed=9", "segment=BYTES"),
            ("bcast", "COLLECTIVE=ALGORITHM"),
            ("bcast=chain:segment=99999999999999MiB", "64KiB or 1MiB"),
            ("bcast=chain:segment=128XiB", "64KiB or 1MiB"),
            (
                "reduce=binomial:segment=9",
                "no `segment`, which changes nothing of binomial: it has mode",
            ),
            ("alltoall=windowed:radix=7", "it has window, mode"),
        ] {
            let error = text.parse::<Overrides>().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
