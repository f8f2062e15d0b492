//! What a measurement tells: a table, and on request lines of JSON and a page.

pub mod bars;
pub mod page;
pub mod svg;
pub mod text;

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::Args;

use crate::{exit::Usage, files, tell::explained};

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

/// Where the results go. Files are opened before anything is measured, so that a mistake in a path
/// costs no time.
pub struct Reports {
    table: Box<dyn Write>,
    json: Option<Box<dyn Write>>,
    html: Option<File>,
    /// What stands at the head of the page.
    notes: Vec<String>,
}

/// A file of the command line, before anything was begun.
fn created(path: &Path) -> Result<File> {
    files::create(path).map_err(|error| Usage::of(error).into())
}

impl Reports {
    /// Opens what was asked for. The table makes way for JSON on standard output.
    ///
    /// # Errors
    /// If a file cannot be created.
    pub fn open(output: &OutputArgs) -> Result<Self> {
        let stdout_is_json = output.json.as_deref() == Some(Path::new("-"));
        let json: Option<Box<dyn Write>> = match &output.json {
            Some(_) if stdout_is_json => Some(Box::new(io::stdout())),
            Some(path) => Some(Box::new(created(path)?)),
            None => None,
        };
        let table: Box<dyn Write> = match stdout_is_json {
            true => Box::new(io::stderr()),
            false => Box::new(io::stdout()),
        };
        Ok(Self {
            table,
            json,
            html: output.html.as_deref().map(created).transpose()?,
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
        explained(write_out(&mut self.table, table))?;
        match &mut self.json {
            Some(output) => explained(write_out(output, json)),
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
            Some(output) => {
                let page = page::with_notes(&rendered.html, &self.notes);
                explained(write_out(output, &page))
            }
            None => Ok(()),
        }
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
