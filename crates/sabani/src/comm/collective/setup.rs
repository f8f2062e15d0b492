//! What rank 0's user wants, told to all: so all ranks choose the same, whatever their own environment and
//! files say.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sabani_model::choose::{Lookup, Row};
use sabani_model::{Network, network};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::chooser::{Chooser, Explainer, Table};
use crate::comm::{Comm, Error, locked};

/// Chooses other algorithms than the rule does; see [`Comm::set_algorithms`].
const ALGORITHMS: &str = "SABANI_ALGORITHMS";
/// Names the file of a network that was measured; see [`Comm::set_network`].
const NETWORK: &str = "SABANI_NETWORK";
/// Makes rank 0 say what is chosen, and why.
const EXPLAIN: &str = "SABANI_EXPLAIN";

/// Who tells the user what is chosen, if this rank is to do so.
pub(in crate::comm) fn explainer(rank: usize) -> Option<Explainer> {
    let is_wanted = env::var_os(EXPLAIN).is_some_and(|value| !value.is_empty() && value != "0");
    (is_wanted && rank == 0).then(Explainer::default)
}

/// Where a table is from, and its lines.
type Source = (String, Vec<Row>);

impl Comm {
    /// Uses the algorithms from now on that are best on a network that was measured, as `sabani model
    /// compile` has found them: for as many ranks on as many hosts as the file knows; else the rule stays.
    /// All ranks must do so, at the same place among their collectives. Rank 0's file counts, the others need
    /// none; with `None` there, it is the rule again.
    ///
    /// [`Comm::init`] does this with the file that `SABANI_NETWORK` names at rank 0. With another file
    /// algorithms may differ, and with them the last digits of sums of floating-point numbers.
    ///
    /// # Errors
    /// [`Error::Network`] at all ranks if the file can't be used; those of [`Comm::bcast`].
    pub fn set_network(&self, path: Option<&Path>) -> Result<(), Error> {
        let source = self.told_by_the_first(|| self.source(path))?;
        locked(&self.series.chooser).table = table(source).map_err(Error::Network)?;
        Ok(())
    }

    /// Uses what rank 0's environment says.
    pub(in crate::comm) fn set_by_environment(&self) -> Result<(), Error> {
        let tell = || {
            let path = env::var_os(NETWORK).filter(|path| !path.is_empty());
            let source = self.source(path.map(PathBuf::from).as_deref());
            let source = source.map_err(of_variable)?;
            // What can't be shown is no algorithm either.
            let algorithms = env::var_os(ALGORITHMS).unwrap_or_default();
            Ok((algorithms.to_string_lossy().into_owned(), source))
        };
        let (algorithms, source): (String, Source) = self.told_by_the_first(tell)?;
        *locked(&self.series.chooser) = Chooser {
            overrides: algorithms.parse().map_err(|why| Error::Algorithms {
                by: ALGORITHMS,
                why,
            })?,
            table: table(source).map_err(|why| Error::Network(of_variable(why)))?,
        };
        Ok(())
    }

    /// Reads a network's table.
    fn source(&self, path: Option<&Path>) -> Result<Source, String> {
        let Some(path) = path else {
            self.note(|| {
                format!(
                    "algorithms that nobody sets are chosen by the rule; {NETWORK} may name a file of this \
                     network, which `sabani model measure` makes"
                )
            });
            return Ok(Source::default());
        };
        let name = path.display().to_string();
        let text = network::read_plain(path).map_err(|why| match why.kind() {
            ErrorKind::NotFound => {
                format!("{name}: there is no such file: `sabani run -n 4 -- sabani model measure -o {name}`, or another launcher on the hosts of the job, makes one, without {NETWORK}")
            }
            _ => format!("{name}: {why}"),
        })?;
        let network = Network::from_json(&text).map_err(|why| format!("{name}: {why}"))?;
        if network.choices.is_empty() {
            let cure = match network.transports.contains_key("sabani") {
                true => format!("`sabani model compile --network {name}` adds it"),
                false => format!(
                    "nothing was measured over Sabani: `sabani run -n 4 -- sabani model measure -o {name}`, or another launcher, does that"
                ),
            };
            return Err(format!("{name} has no table of algorithms: {cure}"));
        }
        if let Some(doubt) = network.doubt() {
            self.note(|| format!("{name}: {doubt}"));
        }
        if !self.is_on(&network) {
            self.note(|| format!("{name} was measured between other hosts"));
        }
        Ok((name, network.choices))
    }

    /// Whether the ranks are on hosts that a file names.
    fn is_on(&self, network: &Network) -> bool {
        let hosts = &network.graph.hosts;
        let known = |name: String| hosts.iter().any(|host| host.is_called(&name));
        let mut ranks = 0..self.size();
        network.one_host || ranks.all(|rank| self.host_of(rank).is_ok_and(known))
    }

    /// Tells the user something, if that is wanted.
    fn note(&self, text: impl FnOnce() -> String) {
        if let Some(explainer) = &self.job.explainer {
            explainer.note(text());
        }
    }

    /// What rank 0 finds out, or why it fails, at all ranks. Costs a short broadcast if there is nothing
    /// to tell.
    fn told_by_the_first<T>(&self, tell: impl FnOnce() -> Result<T, String>) -> Result<T, Error>
    where
        T: Default + PartialEq + Serialize + DeserializeOwned,
    {
        let mut bytes = Vec::new();
        if self.rank() == 0 {
            let told = tell();
            if told != Ok(T::default()) {
                bytes = serde_json::to_vec(&told).expect("all keys are strings");
            }
        }
        self.set_silent(true);
        let heard = self.hear_the_first(&mut bytes);
        self.set_silent(false);
        heard?;
        if bytes.is_empty() {
            return Ok(T::default());
        }
        let told = serde_json::from_slice::<Result<T, String>>(&bytes);
        let told = told.map_err(|why| Error::Network(format!("rank 0's is unreadable: {why}")))?;
        told.map_err(Error::Network)
    }

    /// Gets rank 0's bytes, however many they are.
    fn hear_the_first(&self, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let mut length = [bytes.len() as u64];
        self.bcast(0, &mut length)?;
        bytes.resize(length[0] as usize, 0);
        match length {
            [0] => Ok(()),
            _ => self.bcast(0, bytes),
        }
    }

    /// Whether the user hears nothing of the collectives that come.
    fn set_silent(&self, silent: bool) {
        if let Some(explainer) = &self.job.explainer {
            explainer.set_silent(silent);
        }
    }
}

/// Says whose environment names the file: any rank may be the one whose user reads this.
fn of_variable(why: String) -> String {
    format!("rank 0's {NETWORK}={why}")
}

fn table((source, rows): Source) -> Result<Arc<Table>, String> {
    let lookup = Lookup::new(&rows).map_err(|why| format!("{source}: {why}"))?;
    Ok(Arc::new(Table { lookup, source }))
}
