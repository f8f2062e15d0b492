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

impl OutputArgs {
    /// Refuses to write where this option has read from.
    ///
    /// # Errors
    /// [`Usage`], naming both options.
    pub fn expect_other_than(&self, option: &str, path: &Path) -> Result<(), Usage> {
        let [json, html] = self.files();
        files::expect_distinct(&[(option, Some(path)), json, html])
    }

    /// What is written, with the options' names; standard output is no file.
    fn files(&self) -> [(&str, Option<&Path>); 2] {
        let json = self.json.as_deref();
        let json = json.filter(|path| *path != Path::new("-"));
        [("--json", json), ("--html", self.html.as_deref())]
    }
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

    /// Writes all that is left. What has not begun is a whole file then, or as it was before.
    ///
    /// # Errors
    /// As [`Lines::write`].
    fn finish(&mut self, text: &str) -> Result<()> {
        match self {
            Lines::Named(path) => files::write(path, text),
            Lines::Open(..) => self.write(text),
        }
    }
}

impl Reports {
    /// Opens what was asked for. The table makes way for JSON on standard output.
    ///
    /// # Errors
    /// [`Usage`], if a file cannot be created, or is to have both.
    pub fn open(output: &OutputArgs) -> Result<Self> {
        expect_file(output.html.as_deref())?;
        files::expect_distinct(&output.files())?;
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
        self.write_table(table)?;
        match &mut self.json {
            Some(lines) => lines.write(json),
            None => Ok(()),
        }
    }

    fn write_table(&mut self, table: &str) -> Result<()> {
        let written = write_out(&mut self.table, table);
        match self.stdout_is_json {
            true => explained(written),
            false => explained_stdout(written),
        }
    }

    /// Writes all that is left, and the page.
    ///
    /// # Errors
    /// As [`Reports::head`].
    pub fn write(&mut self, rendered: &Rendered) -> Result<()> {
        self.write_table(&rendered.table)?;
        if let Some(lines) = &mut self.json {
            lines.finish(&rendered.json)?;
        }
        if let Some(page) = &mut self.html {
            page.finish(&page::with_notes(&rendered.html, &self.notes))?;
        }
        Ok(())
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
