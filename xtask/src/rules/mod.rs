//! House rules, as code. Each module checks one kind and reports what breaks it.

mod floors;
mod lengths;
mod papers;
mod sources;
mod words;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::shell;

/// A text file of the repository.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|kind| kind == "rs")
    }

    /// Whether the whole file is there for tests.
    fn is_test(&self) -> bool {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let in_tests = self
            .path
            .components()
            .any(|part| part.as_os_str() == "tests");
        in_tests || stem == "tests" || stem == "testing" || stem.ends_with("_tests")
    }

    /// Its lines, numbered from 1, up to the module of tests at its end. Other items for tests may stand anywhere, and
    /// what follows them is code as before.
    fn lines_outside_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut lines = self.text.lines().enumerate().peekable();
        std::iter::from_fn(move || {
            loop {
                let (index, line) = lines.next()?;
                let item = lines.peek().map_or("", |(_, next)| *next);
                if line != "#[cfg(test)]" || !item.ends_with(" {") {
                    return Some((index + 1, line));
                }
                // rustfmt puts the brace that closes an item of a file where the item begins.
                let is_module = item.starts_with("mod ");
                lines.find(|&(_, line)| !is_module && (line == "}" || line == "};"))?;
            }
        })
    }
}

/// A rule that is broken somewhere.
struct Broken {
    path: PathBuf,
    line: usize,
    why: String,
}

impl Broken {
    fn new(path: &Path, line: usize, why: impl Into<String>) -> Self {
        Broken {
            path: path.to_owned(),
            line,
            why: why.into(),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path.display(), self.line, self.why)
    }
}

/// Checks all house rules.
///
/// # Errors
/// If one is broken; all places have been printed.
pub fn run() -> Result<()> {
    let sources = sources()?;
    let mut broken = Vec::new();
    for source in &sources {
        words::check(source, &mut broken);
        if source.is_rust() {
            sources::check(source, &mut broken);
            lengths::check(source, &mut broken);
        }
    }
    papers::check(&sources, &mut broken);
    floors::check(&mut broken)?;
    for place in &broken {
        println!("{place}");
    }
    ensure!(broken.is_empty(), "{} house rules broken", broken.len());
    println!("house rules: {} files hold them", sources.len());
    Ok(())
}

/// All text files that git knows, or would.
fn sources() -> Result<Vec<Source>> {
    let mut git = std::process::Command::new("git");
    git.args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ])
    .current_dir(shell::root());
    let listed = shell::output(&mut git)?;
    let paths = listed.split('\0').filter(|path| !path.is_empty());
    let mut sources = Vec::new();
    for path in paths {
        let bytes = match std::fs::read(shell::root().join(path)) {
            Ok(bytes) => bytes,
            // Removed, but not yet in git.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("reading {path}")),
        };
        if let Ok(text) = String::from_utf8(bytes) {
            let path = PathBuf::from(path);
            sources.push(Source { path, text });
        }
    }
    Ok(sources)
}

#[cfg(test)]
fn broken_in(path: &str, text: &str, check: fn(&Source, &mut Vec<Broken>)) -> Vec<usize> {
    let source = Source {
        path: path.into(),
        text: text.into(),
    };
    let mut broken = Vec::new();
    check(&source, &mut broken);
    broken.iter().map(|place| place.line).collect()
}
