//! The key that makes a process a member of the job.

use std::fs::{self, FileType};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use sabani_proto::seal;

use crate::Error;

/// A job's key: 256 random bits that every process of the job holds. It proves membership, not
/// which member somebody is.
#[derive(Clone, Debug)]
pub struct JobKey(pub(crate) seal::JobKey);

impl JobKey {
    /// A new random key.
    ///
    /// # Errors
    /// [`Error::Io`] if the system has no randomness.
    pub fn generate() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        fill_random(&mut bytes)?;
        Ok(JobKey(seal::JobKey::from_bytes(bytes)))
    }

    /// A key from its 32 bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        JobKey(seal::JobKey::from_bytes(bytes))
    }

    /// Reads a key file: 64 hexadecimal digits. A pipe that the process was started with has a name, too:
    /// `/dev/stdin`, or `/dev/fd/3`.
    ///
    /// # Errors
    /// [`Error::JobKey`] if there is no such file, if it is none, can't be read or can be by others, or holds no key;
    /// [`Error::Io`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let doing = || format!("reading the job key {}", path.display());
        let problem = |problem: String| Error::JobKey {
            path: path.to_owned(),
            problem,
        };
        let unreadable = |error: io::Error| match error.kind() {
            ErrorKind::PermissionDenied => problem(format!(
                "{error}: `ls -ld` of it and of its folders shows who may read it"
            )),
            ErrorKind::NotADirectory => {
                problem("a name before the last one is a file's: is the path right?".into())
            }
            _ => Error::io(doing())(error),
        };
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => problem(
                "there is no such file: `sabani key` makes one, for all processes of the job"
                    .into(),
            ),
            _ => unreadable(error),
        })?;
        if let Some(unfit) = unfit(path, metadata.file_type()) {
            return Err(problem(unfit.to_owned()));
        }
        let mode = metadata.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(problem(format!(
                "others may read this key (mode {:03o}): chmod 600 {}",
                mode & 0o777,
                path.display()
            )));
        }
        let bytes = fs::read(path).map_err(unreadable)?;
        seal::JobKey::from_hex(&String::from_utf8_lossy(&bytes))
            .map(JobKey)
            .map_err(|error| problem(error.to_string()))
    }

    /// Writes a key file that only its owner can read. An existing file is left alone.
    ///
    /// # Errors
    /// [`Error::JobKey`] if there is such a file, or no such folder; [`Error::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        let path = path.as_ref();
        let doing = format!("writing the job key {}", path.display());
        let write = || {
            let mut options = fs::OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            // A key that is cut would be in the way of the next attempt.
            writeln!(file, "{}", *self.0.to_hex()).inspect_err(|_| drop(fs::remove_file(path)))
        };
        let problem = |problem: &str| Error::JobKey {
            path: path.to_owned(),
            problem: problem.into(),
        };
        write().map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                problem("there is such a file already, and it is left as it is: name another one")
            }
            // As /proc does.
            ErrorKind::NotFound if path.parent().is_some_and(Path::is_dir) => {
                problem("the folder takes no new files: name one in another folder")
            }
            ErrorKind::NotFound => problem("the folder is missing: make it first"),
            // Where root is refused, as in /sys, the folder takes no files.
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => problem(&format!(
                "{error}: name one in a folder that you may write, and that takes new files"
            )),
            _ => Error::io(doing)(error),
        })
    }
}

/// Why something is not read as a key file. Who opens a pipe by its name waits until somebody writes, perhaps
/// for ever; one that the process was started with has a writer.
fn unfit(path: &Path, kind: FileType) -> Option<&'static str> {
    let is_inherited = || path.starts_with("/dev") || path.starts_with("/proc");
    if kind.is_dir() {
        Some("a folder: name the key file in it")
    } else if kind.is_file() || (kind.is_fifo() && is_inherited()) {
        None
    } else {
        Some("no file: name one that holds the key, or /dev/stdin, or /dev/fd/N, for a pipe")
    }
}

/// Fills `bytes` with the system's randomness.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|error| Error::Io {
        doing: "asking the system for randomness".into(),
        source: std::io::Error::other(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_saved_key_loads_and_a_readable_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.key");
        JobKey::generate().unwrap().save(&path).unwrap();
        JobKey::load(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = JobKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        let error = JobKey::generate().unwrap().save(&path).unwrap_err();
        assert!(error.to_string().contains("already"), "{error}");
        let error = JobKey::generate().unwrap().save("/sys/job.key");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("name one in a folder"), "{error}");
    }

    #[test]
    fn a_file_of_something_else_is_named_with_what_it_should_hold() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.key");
        JobKey::generate().unwrap().save(&path).unwrap();
        let key = fs::read_to_string(&path).unwrap();
        let windows = format!("\u{feff}{}\r\n", key.trim());
        fs::write(&path, windows).unwrap();
        JobKey::load(&path).unwrap();
        let utf16 = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (bytes, position) in [(utf16, 2), (vec![0xff; 64], 1), (vec![0; 64], 1)] {
            fs::write(&path, bytes).unwrap();
            let error = JobKey::load(&path).unwrap_err().to_string();
            let said = format!("job.key: character {position} of the job key is no hexadecimal");
            assert!(
                error.contains(&said) && error.contains("`sabani key` writes"),
                "{error}"
            );
        }
    }

    #[test]
    fn pipes_are_read_if_somebody_writes() {
        let key = JobKey::generate().unwrap().0.to_hex();
        let (reader, mut writer) = std::io::pipe().unwrap();
        writeln!(writer, "{}", *key).unwrap();
        drop(writer);
        JobKey::load(format!("/dev/fd/{}", reader.as_raw_fd())).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.key");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        let error = JobKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("job.key: no file: name one"), "{error}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/job.key");
        let error = JobKey::load(&path).unwrap_err().to_string();
        assert!(error.contains("`sabani key` makes one"), "{error}");
        fs::write(folder.path().join("file"), "").unwrap();
        let error = JobKey::load(folder.path().join("file/job.key")).unwrap_err();
        assert!(error.to_string().contains("is the path right?"), "{error}");
        let error = JobKey::generate().unwrap().save(&path).unwrap_err();
        assert!(error.to_string().contains("make it first"), "{error}");
        let error = JobKey::generate().unwrap().save("/proc/job.key");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("takes no new files"), "{error}");
    }
}
