//! Programs that the command line names.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::exit::NotRun;

/// As much of a script's first line as Linux reads.
const FIRST_LINE_BYTES: u64 = 256;
/// Where the system looks if no PATH is set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Looks for a program where the system would, so that what is wrong with it is said with the cure.
///
/// # Errors
/// [`NotRun`].
pub fn find(program: &OsStr) -> Result<(), NotRun> {
    let file = locate(program)?;
    let Some(interpreter) = interpreter(&file) else {
        return Ok(());
    };
    check(&interpreter).map_err(|problem| {
        let why = format!("its interpreter {interpreter:?}: {}", problem.text());
        problem.of(program, why)
    })
}

/// The program's file.
fn locate(program: &OsStr) -> Result<PathBuf, NotRun> {
    let path = Path::new(program);
    if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match check(path) {
            Ok(()) => Ok(path.into()),
            Err(problem) => Err(problem.of(program, problem.text())),
        };
    }
    let why = "no folder in PATH has it; write ./ before a program in this folder";
    locate_in(env::var_os("PATH"), program).ok_or_else(|| NotRun::not_found(program, why))
}

/// The file of a program that is named without a folder.
fn locate_in(folders: Option<OsString>, program: &OsStr) -> Option<PathBuf> {
    let folders = folders.unwrap_or_else(|| DEFAULT_PATH.into());
    let mut files = env::split_paths(&folders).map(|folder| folder.join(program));
    files.find(|file| check(file).is_ok())
}

/// What keeps a file from being run.
#[derive(Clone, Copy)]
enum Problem {
    Missing,
    Hidden,
    Folder,
    NoFile,
    NotExecutable,
}

impl Problem {
    fn text(self) -> &'static str {
        match self {
            Self::Missing => "there is no such file",
            Self::Hidden => "permission to look for it is denied",
            Self::Folder => "it is a folder",
            Self::NoFile => "it is not a file",
            Self::NotExecutable => "it is not executable (`chmod +x` makes it so)",
        }
    }

    fn of(self, program: &OsStr, why: impl std::fmt::Display) -> NotRun {
        match self {
            Self::Missing => NotRun::not_found(program, why),
            _ => NotRun::not_executable(program, why),
        }
    }
}

fn check(path: &Path) -> Result<(), Problem> {
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(Problem::Hidden),
        Err(_) => Err(Problem::Missing),
        Ok(data) if data.is_dir() => Err(Problem::Folder),
        Ok(data) if !data.is_file() => Err(Problem::NoFile),
        Ok(data) if data.permissions().mode() & 0o111 == 0 => Err(Problem::NotExecutable),
        Ok(_) => Ok(()),
    }
}

/// What a script is run by, as its first line says.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    let mut file = File::open(file).ok()?.take(FIRST_LINE_BYTES);
    file.read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    // A carriage return is part of the name, for Linux too.
    let mut words = line.split(|byte| b" \t".contains(byte));
    let word = words.find(|word| !word.is_empty())?;
    Some(OsString::from_vec(word.to_vec()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(program: impl AsRef<OsStr>) -> Result<(), u8> {
        find(program.as_ref()).map_err(|error| error.status)
    }

    #[test]
    fn programs_are_looked_for() {
        for (program, outcome) in [
            ("sh", Ok(())),
            ("/bin/sh", Ok(())),
            ("sabani-no-such-program", Err(127)),
            ("./sabani-no-such-program", Err(127)),
            ("/etc/passwd", Err(126)),
            ("/etc", Err(126)),
            ("/dev/null", Err(126)),
        ] {
            assert_eq!(status(program), outcome, "{program}");
        }
    }

    #[test]
    fn without_a_path_the_system_looks_where_it_always_does() {
        let found = |folders: Option<&str>| locate_in(folders.map(Into::into), "sh".as_ref());
        assert!(found(None).is_some());
        assert_eq!(found(Some("/etc:/dev")), None);
        assert_eq!(found(Some("")), None, "this folder has none");
    }

    #[test]
    fn a_script_needs_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        for (line, outcome) in [
            ("#!/bin/sh\n", Ok(())),
            ("#! /bin/sh -e\n", Ok(())),
            ("#!/bin/sh\r\n", Err(127)),
            ("#!/no/such/interpreter\n", Err(127)),
            ("#!/etc\n", Err(126)),
            ("#!\n", Ok(())),
            ("", Ok(())),
        ] {
            std::fs::write(&script, line).unwrap();
            std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
            assert_eq!(status(&script), outcome, "{line}");
        }
        std::fs::write(&script, "#!/no/such/interpreter -x").unwrap();
        let said = find(script.as_os_str()).unwrap_err().to_string();
        assert!(
            said.contains("its interpreter \"/no/such/interpreter\": there is no"),
            "{said}"
        );
    }
}
