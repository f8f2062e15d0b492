//! `sabani key`, and the options that choose between a job key and plain packets.

use std::env;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use sabani::{Builder, Checksum, Error, JobKey};

use crate::exit::Usage;
use crate::files;
use crate::tell::say;

/// Names the key file when the command line does not.
const VARIABLE: &str = "SABANI_JOB_KEY_FILE";

/// Make a job key: the secret that every process of a job shares.
///
/// The file holds 64 hexadecimal digits and only its owner may read it (mode 600). Copy it to the
/// other machines over a channel that you trust. An existing file is never overwritten.
#[derive(Args)]
pub struct KeyArgs {
    /// The file to write, for example job.key.
    file: PathBuf,
}

/// Runs `sabani key`.
///
/// # Errors
/// [`Usage`], if the file exists already or can't be written.
pub fn run(args: &KeyArgs) -> Result<()> {
    // What is there is refused below, unopened: a pipe would wait for a reader.
    if args.file.symlink_metadata().is_err() {
        files::expect_writable(&args.file)?;
    }
    JobKey::generate()?
        .save(&args.file)
        .map_err(|error| match error {
            // It is there already.
            Error::JobKey { .. } => Usage::of(error).into(),
            error => anyhow!(error),
        })?;
    say(format_args!("wrote {}", args.file.display()))
}

/// A new job key for processes that this one starts. It has no name on the disk, so that nothing is left of it however
/// this process ends.
pub struct LentKey(File);

impl LentKey {
    /// Makes one.
    ///
    /// # Errors
    /// If there is no room for it in the folder for temporary files.
    pub fn make() -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the job key")?;
        let file = folder.path().join("job.key");
        JobKey::generate()?.save(&file)?;
        Ok(Self(File::open(file)?))
    }

    /// Where others of this user find it while this lives.
    pub fn path(&self) -> PathBuf {
        let (process, file) = (process::id(), self.0.as_raw_fd());
        format!("/proc/{process}/fd/{file}").into()
    }
}

/// How packets are protected.
#[derive(Args)]
pub struct SealArgs {
    /// The job key, made by `sabani key`. Default: the file that SABANI_JOB_KEY_FILE names.
    #[arg(long, value_name = "FILE", conflicts_with = "plain")]
    key: Option<PathBuf>,
    /// Neither encrypt nor authenticate: for wires that nobody else can reach.
    #[arg(long)]
    plain: bool,
}

impl SealArgs {
    /// Gives the node the key, or makes it plain with a checksum.
    ///
    /// # Errors
    /// [`Usage`], if neither was chosen, or the key can't be read.
    pub fn apply(&self, builder: Builder) -> Result<Builder> {
        if self.plain {
            return Ok(builder.plain(Checksum::Crc32c));
        }
        let file = self
            .key
            .clone()
            .or_else(|| env::var_os(VARIABLE).map(PathBuf::from))
            .filter(|file| !file.as_os_str().is_empty());
        let Some(file) = file else {
            return Err(Usage(format!(
                "no job key: `sabani key job.key` makes one; give both sides `--key job.key` (or \
                 set {VARIABLE}), or `--plain` if nobody else can reach the network"
            ))
            .into());
        };
        Ok(builder.job_key(JobKey::load(file).map_err(Usage::of)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lent_key_has_no_name_and_is_found_while_it_lives() {
        let key = LentKey::make().unwrap();
        let name = std::fs::read_link(key.path()).unwrap();
        assert!(!name.exists(), "{}", name.display());
        let path = key.path();
        JobKey::load(&path).unwrap();
        drop(key);
        assert!(JobKey::load(&path).is_err());
    }
}
