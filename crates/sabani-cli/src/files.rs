//! Files that the command line names, and what to do where they can't be written.

use std::{
    fs::{self, File},
    io::{Error, ErrorKind, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};

use crate::exit::Usage;

/// Creates a file, or empties it.
///
/// # Errors
/// If that can't be, naming the file, the cause and the cure.
pub fn create(path: &Path) -> Result<File> {
    explained(path, File::create(path))
}

/// Writes a whole file: one that was there before stays as it was until all of it is written.
///
/// # Errors
/// As [`create`].
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    // What is no plain file can't be replaced, and a link stays one.
    let is_plain = fs::symlink_metadata(path).is_ok_and(|there| there.is_file());
    let written = match is_plain {
        true => replace(path, content.as_ref()),
        false => write_anew(path, content.as_ref()),
    };
    explained(path, written)
}

/// Writes what is no plain file, or not there, and leaves no new one behind that has only a part of it.
fn write_anew(path: &Path, content: &[u8]) -> Result<(), Error> {
    let mut new = match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return fs::write(path, content),
        new => new?,
    };
    let written = new.write_all(content);
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

fn replace(path: &Path, content: &[u8]) -> Result<(), Error> {
    let rights = fs::metadata(path)?.permissions();
    // Who may not write the file may not replace it either, though the folder's owner could.
    drop(File::options().append(true).open(path)?);
    let mut beside = match tempfile::NamedTempFile::new_in(folder(path)) {
        // Not in this folder, but the file itself can be written.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return fs::write(path, content);
        }
        beside => beside?,
    };
    beside.write_all(content)?;
    beside.as_file().set_permissions(rights)?;
    beside.as_file().sync_all()?;
    beside.persist(path).map(drop).map_err(|error| error.error)
}

/// Finds out before long work whether a file can be written after it, and leaves all as it is.
///
/// # Errors
/// As [`create`]; it counts as a mistake on the command line.
pub fn expect_writable(path: &Path) -> Result<()> {
    let writable = match File::options().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => try_out(path),
        opened => opened.map(drop),
    };
    explained(path, writable).map_err(|error| Usage::of(error).into())
}

/// Refuses options of which two name the same file: what is written for one would overwrite what the other has read or
/// written. Pipes and devices may have several users.
///
/// # Errors
/// [`Usage`], naming both.
pub fn expect_distinct(options: &[(&str, Option<&Path>)]) -> Result<(), Usage> {
    let mut known: Vec<(&str, Place)> = Vec::new();
    for (option, path) in options {
        let Some((path, place)) = path.and_then(|path| Some((path, Place::of(path)?))) else {
            continue;
        };
        if let Some((other, _)) = known.iter().find(|(_, known)| *known == place) {
            return Err(Usage(format!(
                "{other} and {option} name the same file, {}: name another one",
                path.display()
            )));
        }
        known.push((option, place));
    }
    Ok(())
}

/// What two paths to the same file have in common.
#[derive(PartialEq)]
enum Place {
    /// A file that is there: its device and its number there.
    Known(u64, u64),
    /// One that would be made: the folder without links, and the name.
    New(PathBuf),
}

impl Place {
    /// `None` for what is no plain file.
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(there) => there
                .is_file()
                .then(|| Place::Known(there.dev(), there.ino())),
            Err(_) => Some(Place::New(place_of_new(path))),
        }
    }
}

/// Where a file would be made, by a link to what is not there, too.
fn place_of_new(path: &Path) -> PathBuf {
    /// The system follows no more.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => break,
        }
    }
    match (fs::canonicalize(folder(&path)), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path,
    }
}

/// Makes a file that is not there, and takes it away again: some folders give leave to write and take no new files,
/// as /proc does.
fn try_out(path: &Path) -> Result<(), Error> {
    match File::create_new(path) {
        Ok(_) => fs::remove_file(path),
        // A link to a file that is not there, or somebody else made it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Names the file, and what helps, in an error of writing it.
///
/// # Errors
/// As the outcome.
pub fn explained<T>(path: &Path, outcome: Result<T, Error>) -> Result<T> {
    let outcome = outcome.map_err(|error| why(path, error));
    outcome.with_context(|| format!("cannot write {}", path.display()))
}

fn why(path: &Path, error: Error) -> anyhow::Error {
    let is_folder = folder(path).is_dir();
    let folder = folder(path).display();
    match error.kind() {
        // As /proc does.
        ErrorKind::NotFound if is_folder => {
            anyhow!("{folder} takes no new files: name one in another folder")
        }
        ErrorKind::NotFound => anyhow!("there is no folder {folder}: make it first"),
        ErrorKind::NotADirectory => anyhow!("{folder} is a file, or below one: name a folder"),
        ErrorKind::IsADirectory => anyhow!("it is a folder: name a file in it"),
        ErrorKind::PermissionDenied => {
            anyhow!("{error}: `ls -ld` shows who may write it, and to {folder}")
        }
        _ => error.into(),
    }
}

/// The folder that a file is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_anew_keeps_its_rights_and_a_link_stays_one() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        super::write(&file, "first").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        for (path, content) in [(&file, "second"), (&link, "third")] {
            super::write(path, content).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), content);
        }
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }

    #[test]
    fn who_can_not_write_is_told_why_and_what_to_do() {
        let place = tempfile::tempdir().unwrap();
        let at = |name| place.path().join(name);
        write(&at("file"), "content").unwrap();
        for (name, said) in [
            ("missing/file", "missing: make it first"),
            ("file/file", "file is a file, or below one"),
            (".", "it is a folder: name a file in it"),
        ] {
            let path = at(name);
            let errors = [
                create(&path).map(drop),
                write(&path, ""),
                expect_writable(&path),
            ];
            for error in errors {
                let error = format!("{:#}", error.unwrap_err());
                assert!(
                    error.starts_with("cannot write ") && error.contains(said),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn a_folder_that_takes_no_files_is_told_from_one_that_is_missing() {
        let path = Path::new("/proc/key");
        for error in [write(path, ""), expect_writable(path)] {
            let error = format!("{:#}", error.unwrap_err());
            assert!(error.contains("/proc takes no new files"), "{error}");
        }
    }

    #[test]
    fn two_options_for_one_file_are_refused_however_it_is_named() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let at = |name| place.path().join(name);
        write(&at("file"), "content").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("new", at("dangling")).unwrap();
        symlink("circle", at("circle")).unwrap();
        fs::hard_link(at("file"), at("hard")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let refused = |one, other| {
            let (one, other) = (at(one), at(other));
            let options = [
                ("--in", Some(&*one)),
                ("--none", None),
                ("--out", Some(&*other)),
            ];
            expect_distinct(&options).err().map(|Usage(why)| why)
        };
        for (one, other) in [
            ("file", "file"),
            ("file", "./folder/../file"),
            ("file", "link"),
            ("hard", "file"),
            ("new", "folder/../new"),
            ("dangling", "new"),
            ("circle", "circle"),
        ] {
            let why = refused(one, other).expect(other);
            assert!(
                why.starts_with("--in and --out name the same file"),
                "{why}"
            );
        }
        for (one, other) in [("file", "new"), ("new", "newer"), ("file", "folder/file")] {
            assert_eq!(refused(one, other), None);
        }
        let null = Some(Path::new("/dev/null"));
        assert!(expect_distinct(&[("--json", null), ("--html", null)]).is_ok());
    }

    #[test]
    fn what_is_expected_is_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let (old, new) = (place.path().join("old"), place.path().join("new"));
        write(&old, "content").unwrap();
        expect_writable(&old).unwrap();
        expect_writable(&new).unwrap();
        assert_eq!(fs::read(&old).unwrap(), b"content");
        assert!(!new.exists());
    }
}
