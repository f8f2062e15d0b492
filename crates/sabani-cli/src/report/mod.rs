//! What a measurement tells: a table, and on request lines of JSON and a page.

pub mod bars;
pub mod page;
pub mod svg;
pub mod text;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Args;

use crate::{
    exit::Usage,
    files,
    tell::{explained, explained_file, explained_stdout},
};

/// Where the results go, beside a table on standard output.
#[derive(Args, Debug)]
pub struct OutputArgs {
    /// Also write one JSON object per line and result; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Also write a page with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Where the results go. That files can be written is found out before anything is measured, so that a mistake in a
/// path costs no time.
pub struct Reports {
    table: Box<dyn Write>,
    stdout_is_json: bool,
    json: Option<Lines>,
    html: Option<Lines>,
    /// What stands at the head of the page.
    notes: Vec<String>,
}

/// A file that begins with the first thing to be written: until then there is what was there before.
enum Lines {
    Named(PathBuf),
    Open(Box<dyn Write>, PathBuf),
}

impl Lines {
    /// Makes sure that a file of the command line can be written. What is there and no plain file is opened: a
    /// reader of a pipe would take the second writer for another one.
    fn to(path: &Path) -> Result<Self> {
        if path.exists() && !path.is_file() {
            let open = files::create(path).map_err(Usage::of)?;
            return Ok(Lines::Open(Box::new(open), path.to_owned()));
        }
        files::expect_writable(path)?;
        Ok(Lines::Named(path.to_owned()))
    }

    /// Writes more of them.
    ///
    /// # Errors
    /// With the file's name; [`Unread`](crate::exit::Unread).
    fn write(&mut self, text: &str) -> Result<()> {
        if let Lines::Named(path) = self {
            *self = Lines::Open(Box::new(files::create(path)?), path.clone());
        }
        match self {
            Lines::Open(output, path) => explained_file(path, write_out(output, text)),
            Lines::Named(_) => unreachable!("it was opened"),
        }
    }
}

impl Reports {
    /// Opens what was asked for. The table makes way for JSON on standard output.
    ///
    /// # Errors
    /// [`Usage`], if a file cannot be created.
    pub fn open(output: &OutputArgs) -> Result<Self> {
        expect_file(output.html.as_deref())?;
        let stdout_is_json = output.json.as_deref() == Some(Path::new("-"));
        let json = match &output.json {
            Some(path) if stdout_is_json => Some(Lines::Open(Box::new(io::stdout()), path.clone())),
            path => path.as_deref().map(Lines::to).transpose()?,
        };
        let table: Box<dyn Write> = match stdout_is_json {
            true => Box::new(io::stderr()),
            false => Box::new(io::stdout()),
        };
        Ok(Self {
            table,
            stdout_is_json,
            json,
            html: output.html.as_deref().map(Lines::to).transpose()?,
            notes: Vec::new(),
        })
    }

    /// Begins with lines for people, the same as one of JSON: before anything is measured, so that who reads
    /// along sees at once what of.
    ///
    /// # Errors
    /// If one of the outputs fails.
    pub fn head(&mut self, lines: Vec<String>, json: &str) -> Result<()> {
        let table = lines.join("\n");
        self.notes = lines;
        self.part(&format!("{table}\n"), &format!("{json}\n"))
    }

    /// Writes what is known so far.
    ///
    /// # Errors
    /// As [`Reports::head`].
    pub fn part(&mut self, table: &str, json: &str) -> Result<()> {
        let written = write_out(&mut self.table, table);
        match self.stdout_is_json {
            true => explained(written)?,
            false => explained_stdout(written)?,
        }
        match &mut self.json {
            Some(lines) => lines.write(json),
            None => Ok(()),
        }
    }

    /// Writes all that is left, and the page.
    ///
    /// # Errors
    /// As [`Reports::head`].
    pub fn write(&mut self, rendered: &Rendered) -> Result<()> {
        self.part(&rendered.table, &rendered.json)?;
        match &mut self.html {
            Some(lines) => {
                let page = page::with_notes(&rendered.html, &self.notes);
                lines.write(&page)
            }
            None => Ok(()),
        }
    }
}

/// Refuses standard output, which other results go to, for a page.
///
/// # Errors
/// [`Usage`].
pub fn expect_file(html: Option<&Path>) -> Result<(), Usage> {
    match html == Some(Path::new("-")) {
        true => Err(Usage(
            "`--html -`: a page needs a file: name one, as in `--html page.html`".into(),
        )),
        false => Ok(()),
    }
}

fn write_out(output: &mut impl Write, text: &str) -> io::Result<()> {
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// What a run tells, in each form.
pub struct Rendered {
    /// For people.
    pub table: String,
    /// Lines of JSON.
    pub json: String,
    /// A page.
    pub html: String,
}
