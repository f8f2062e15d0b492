//! The variables that launchers set, as they were when this process started.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::Error;

/// A process's environment, or one made up.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process. Variables that are not Unicode are left out: no launcher
    /// sets such.
    pub fn current() -> Self {
        let all = std::env::vars_os();
        Self(
            all.filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            })
            .collect(),
        )
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    /// A variable that must be a number, if it is set.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Error> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number = text.trim().parse().map_err(|_| Error::Variable {
            name,
            problem: format!("`{text}` is not a number that fits: write a whole one, or unset it"),
        })?;
        Ok(Some(number))
    }

    /// A variable that must be set to a number.
    ///
    /// # Errors
    /// If it is not: `cure` says what to do.
    pub fn need<T: FromStr>(&self, name: &'static str, cure: &str) -> Result<T, Error> {
        self.number(name)?.ok_or_else(|| Error::Variable {
            name,
            problem: format!("is not set: {cure}"),
        })
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}
