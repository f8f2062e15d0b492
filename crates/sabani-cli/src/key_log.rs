//! The option `--key-log`: traffic secrets in a file, for decrypting what was captured.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use sabani::{Builder, Event, Node};

use crate::exit::Usage;
use crate::files;

/// How each line begins.
const LINE_BEGINS: &[u8] = b"SABANI ";

/// Whether connections give away what decrypts them.
#[derive(Args, Clone, Debug, Default)]
pub struct KeyLogArgs {
    /// Append the traffic secrets of each connection to FILE, for debugging: whoever has it can read
    /// and forge what these connections carry.
    ///
    /// One line for each connection, its format being in docs/protocol.md. The file is made so that
    /// only its owner may read it (mode 600); one that others may read is refused, and so is a file with something else in it.
    #[arg(long, value_name = "FILE")]
    key_log: Option<PathBuf>,
}

impl KeyLogArgs {
    /// Opens the file, if one is wanted.
    ///
    /// # Errors
    /// [`Usage`], if the file can't be opened, is none that can grow, or others may read it.
    pub fn open(&self) -> Result<KeyLog> {
        let Some(path) = &self.key_log else {
            return Ok(KeyLog(None));
        };
        let name = path.display();
        // To open a pipe is to wait for its reader. Folders are told of below.
        if path
            .metadata()
            .is_ok_and(|there| !there.is_file() && !there.is_dir())
        {
            let why = format!("{name} is no plain file, as a key log is: name another one");
            return Err(Usage(why).into());
        }
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).open(path);
        let file = files::explained(path, file).context("key log");
        let file = file.map_err(Usage::of)?;
        let mode = file.metadata()?.permissions().mode();
        if mode & 0o077 != 0 {
            let why = format!("others may read the key log {name}: `chmod 600 {name}` first");
            return Err(Usage(why).into());
        }
        let is_one = File::open(path).and_then(|file| begins_as_one(&file));
        let is_one = is_one.map_err(|error| {
            Usage(format!(
                "cannot read the key log {name}: {error}: name another file"
            ))
        })?;
        if !is_one {
            let why = format!("{name} is no key log, and has something in it: name another file");
            return Err(Usage(why).into());
        }
        Ok(KeyLog(Some(Arc::new(file))))
    }

    /// Gives a process that is started the same option.
    pub fn pass(&self, command: &mut Command) {
        if let Some(path) = &self.key_log {
            command.arg("--key-log").arg(path);
        }
    }
}

/// Whether there is nothing in a file, or what [`Event::Secrets`] has.
fn begins_as_one(file: &File) -> io::Result<bool> {
    let mut start = Vec::new();
    file.take(LINE_BEGINS.len() as u64)
        .read_to_end(&mut start)?;
    Ok(start.is_empty() || start == LINE_BEGINS)
}

/// The file, if one is wanted. Several processes may share it.
#[derive(Clone, Default)]
pub struct KeyLog(Option<Arc<File>>);

impl KeyLog {
    /// Makes the node tell its secrets if they are wanted.
    pub fn apply(&self, builder: Builder) -> Builder {
        builder.key_log(self.0.is_some())
    }

    /// The node's next event; secrets are written down.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn next_event(&self, node: &Node) -> Result<Option<Event>> {
        let event = node.next_event();
        if let (Some(Event::Secrets { line, .. }), Some(file)) = (&event, &self.0) {
            // One call, so that lines of several processes don't mix.
            let mut file: &File = file;
            file.write_all(format!("{line}\n").as_bytes())
                .context("writing the key log")?;
        }
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let args = KeyLogArgs {
            key_log: Some(path.clone()),
        };
        args.open().unwrap();
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        let error = args.open().err().unwrap();
        assert!(error.is::<Usage>(), "{error}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    #[test]
    fn what_can_be_no_log_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [
            folder.path(),
            &pipe,
            "/dev/null".as_ref(),
            "/proc/self/mem".as_ref(),
        ] {
            let args = KeyLogArgs {
                key_log: Some(path.into()),
            };
            let error = args.open().err().unwrap();
            let named = error.to_string().contains(path.to_str().unwrap());
            assert!(error.is::<Usage>() && named, "{error}");
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let args = KeyLogArgs {
            key_log: Some(path.clone()),
        };
        for (content, is_one) in [("", true), ("SABANI 00 11\n", true), ("9f8e7d", false)] {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            assert_eq!(args.open().is_ok(), is_one, "{content}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }
}
