//! Which layers share a thread.

use std::{fmt, ops::Range, str::FromStr};

/// Which layers share a thread. The default is [`Inline`](Self::Inline).
///
/// Written as `inline`, `background`, `per-core`, `per-layer`, or as groups of neighbours, uppermost first, as in
/// `[messages+channel][seal+datagrams]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// All on the thread of the caller, in turn.
    #[default]
    Inline,
    /// All on one thread of their own, in turn.
    Background,
    /// As many threads as there are cores, or layers if those are fewer; neighbours share one where they must.
    PerCore,
    /// A thread each, also where there are fewer cores: then they have to wait for each other.
    PerLayer,
    /// A thread for each group, by the layers' names.
    Groups(Vec<Vec<String>>),
}

impl Schedule {
    /// Which of the layers with these names, uppermost first, share a thread on so many cores.
    ///
    /// # Errors
    /// If the schedule's groups are not these layers in this order.
    pub fn groups(&self, names: &[&str], cores: usize) -> Result<Vec<Range<usize>>, ScheduleError> {
        match self {
            Self::Inline | Self::Background => Ok(equal_parts(names.len(), 1)),
            Self::PerCore => Ok(equal_parts(names.len(), cores.min(names.len()).max(1))),
            Self::PerLayer => Ok(equal_parts(names.len(), names.len())),
            Self::Groups(groups) if groups.iter().flatten().eq(names) => {
                let mut end = 0;
                let lengths = groups.iter().map(Vec::len);
                Ok(lengths
                    .map(|length| {
                        end += length;
                        end - length..end
                    })
                    .collect())
            }
            Self::Groups(groups) => Err(misfit(groups, names)),
        }
    }
}

/// Why groups are not these layers in this order. The name of layers that are always together has `+` between theirs.
fn misfit(groups: &[Vec<String>], names: &[&str]) -> ScheduleError {
    let parts = || names.iter().flat_map(|name| name.split('+'));
    let given = || groups.iter().flatten().flat_map(|name| name.split('+'));
    let layers = names.join(", ");
    if let Some(name) = given().find(|name| parts().all(|part| part != *name)) {
        let name = name.to_owned();
        return ScheduleError::NoLayer { name, layers };
    }
    let is_whole = |name: &&&str| groups.iter().flatten().any(|given| given == **name);
    match names.iter().find(|name| !is_whole(name)) {
        Some(name) if given().eq(parts()) => ScheduleError::Divided((*name).to_owned()),
        _ => ScheduleError::OtherLayers(layers),
    }
}

/// So many things in as many parts, the later ones larger by one if need be.
fn equal_parts(things: usize, parts: usize) -> Vec<Range<usize>> {
    let begin = |part| part * things / parts;
    (0..parts)
        .map(|part| begin(part)..begin(part + 1))
        .collect()
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        match text {
            "inline" => return Ok(Self::Inline),
            "background" => return Ok(Self::Background),
            "per-core" => return Ok(Self::PerCore),
            "per-layer" => return Ok(Self::PerLayer),
            _ => {}
        }
        let inner = text
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let groups = inner.ok_or_else(|| ScheduleError::Unreadable(unclosed(text)))?;
        let groups = groups.split("][");
        let groups: Vec<Vec<_>> = groups
            .map(|group| {
                group
                    .split('+')
                    .map(|name| name.trim().to_owned())
                    .collect()
            })
            .collect();
        let is_name = |name: &String| !name.is_empty() && !name.contains(['[', ']']);
        match groups.iter().flatten().all(is_name) {
            true => Ok(Self::Groups(groups)),
            false => Err(ScheduleError::Unreadable(misnamed(&groups))),
        }
    }
}

/// What is missing where there are no brackets around all.
fn unclosed(text: &str) -> &'static str {
    match (text.starts_with('['), text.ends_with(']')) {
        (true, false) => "`]` is missing at its end",
        (false, true) => "`[` is missing at its beginning",
        _ => "it is no name of one, and has no groups in brackets",
    }
}

/// What is wrong where not all layers have names.
fn misnamed(groups: &[Vec<String>]) -> &'static str {
    match groups.iter().flatten().any(String::is_empty) {
        true => "the name of a layer is missing before or behind `+`, or between brackets",
        false => "each `[` has its `]` before the next one, and nothing stands between groups",
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inline => f.write_str("inline"),
            Self::Background => f.write_str("background"),
            Self::PerCore => f.write_str("per-core"),
            Self::PerLayer => f.write_str("per-layer"),
            Self::Groups(groups) => groups
                .iter()
                .try_for_each(|group| write!(f, "[{}]", group.join("+"))),
        }
    }
}

/// Why a schedule can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// It can't be read, for this reason.
    Unreadable(&'static str),
    /// It names something that is none of the layers.
    NoLayer {
        /// What it names.
        name: String,
        /// The layers.
        layers: String,
    },
    /// It divides these layers, which share a thread under every schedule.
    Divided(String),
    /// It does not name the layers that there are, which are these, once each and in this order.
    OtherLayers(String),
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(
                f,
                "not a schedule: {why}; there are inline, background, per-core, per-layer, and groups as in [a+b][c]"
            ),
            Self::NoLayer { name, layers } => {
                write!(f, "`{name}` is none of the layers here, which are {layers}")
            }
            Self::Divided(layers) => write!(
                f,
                "{layers} share a thread under every schedule: no bracket may stand between them"
            ),
            Self::OtherLayers(names) => {
                let example = names.replacen(", ", "][", 1).replace(", ", "+");
                write!(
                    f,
                    "groups must name all layers, in this order: {names}; as in [{example}]"
                )
            }
        }
    }
}

impl std::error::Error for ScheduleError {}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn parsed(text: &str) -> Schedule {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "inline",
            "background",
            "per-core",
            "per-layer",
            "[a+b][c]",
            "[a]",
        ] {
            assert_eq!(parsed(text).to_string(), text);
        }
        for (text, said) in [
            ("", "no groups"),
            ("a", "no groups"),
            ("[]", "name of a layer is missing"),
            ("[a", "`]` is missing"),
            ("a]", "`[` is missing"),
            ("[a+][b]", "before or behind `+`"),
            ("[a][]", "between brackets"),
            ("[a]x[b]", "between groups"),
            ("[[a]]", "before the next one"),
        ] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert!(error.starts_with("not a schedule"), "{text}: {error}");
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn groups_are_the_layers_in_order() {
        for (text, cores, groups) in [
            ("inline", 2, vec![3]),
            ("background", 2, vec![3]),
            ("per-core", 1, vec![3]),
            ("per-core", 2, vec![1, 2]),
            ("per-core", 8, vec![1, 1, 1]),
            ("per-layer", 2, vec![1, 1, 1]),
            ("[a][b+c]", 2, vec![1, 2]),
        ] {
            let ranges = parsed(text).groups(&NAMES, cores).unwrap();
            assert!(ranges.iter().cloned().flatten().eq(0..3), "{text}");
            assert!(
                ranges.iter().map(ExactSizeIterator::len).eq(groups),
                "{text}"
            );
        }
        for text in ["[a][b]", "[a][c][b]", "[a+b+c+a]"] {
            let error = parsed(text).groups(&NAMES, 2).unwrap_err();
            assert_eq!(error, ScheduleError::OtherLayers("a, b, c".into()));
            assert!(error.to_string().ends_with("as in [a][b+c]"), "{error}");
        }
        let error = parsed("[a+b][d]").groups(&NAMES, 2).unwrap_err();
        assert!(error.to_string().starts_with("`d` is none"), "{error}");
    }
}
