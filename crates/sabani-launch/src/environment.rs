//! The variables that launchers set, as they were when this process started.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::str::FromStr;

use crate::Error;

/// A process's environment, or one made up.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process.
    pub fn current() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// A variable that is set and not empty.
    ///
    /// # Errors
    /// If it is not Unicode: to go on as if it was not set would do what nobody wants.
    pub fn get(&self, name: &'static str) -> Result<Option<&str>, Error> {
        let Some(value) = self.path(name) else {
            return Ok(None);
        };
        let text = value.to_str().ok_or_else(|| Error::Variable {
            name,
            problem: format!(
                "`{}` is not Unicode: write it in UTF-8, or unset it",
                value.display()
            ),
        })?;
        Ok(Some(text))
    }

    /// A variable that is set and not empty, as it is: paths may hold anything.
    pub fn path(&self, name: &str) -> Option<&Path> {
        let value = self.0.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(Path::new(value))
    }

    /// A variable that must be a number, if it is set.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, Error> {
        let Some(text) = self.get(name)? else {
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

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        Self(
            variables
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn what_is_not_unicode_is_taken_as_a_path_or_refused_but_not_ignored() {
        let value = OsStr::from_bytes(b"/tmp/m\xfcller");
        let environment: Environment = [("NAME", value), ("EMPTY", OsStr::new(""))]
            .into_iter()
            .collect();
        assert_eq!(environment.path("NAME"), Some(Path::new(value)));
        let why = environment.get("NAME").unwrap_err().to_string();
        assert!(why.starts_with("NAME: `/tmp/m"), "{why}");
        assert!(environment.number::<u32>("NAME").is_err());
        assert_eq!(environment.get("EMPTY"), Ok(None));
        assert_eq!(environment.path("EMPTY"), None);
    }
}
