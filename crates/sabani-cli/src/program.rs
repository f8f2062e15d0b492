//! Programs that the command line names.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::exit::NotRun;

/// Looks for a program where the system would, so that what is wrong with it is said with the cure.
///
/// # Errors
/// [`NotRun`].
pub fn find(program: &OsStr) -> Result<(), NotRun> {
    let is_file = |path: &Path| path.metadata().is_ok_and(|data| data.is_file());
    let is_executable = |path: &Path| {
        let mode = path.metadata().map(|data| data.permissions().mode());
        is_file(path) && mode.is_ok_and(|mode| mode & 0o111 != 0)
    };
    let path = Path::new(program);
    if path.components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        return match (is_file(path), is_executable(path)) {
            (_, true) => Ok(()),
            (true, false) => Err(NotRun::not_executable(program, "it is not executable")),
            (false, false) => Err(NotRun::not_found(program, "there is no such file")),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders).any(|folder| is_executable(&folder.join(program)));
    let why = "no folder in PATH has it; write ./ before a program in this folder";
    found
        .then_some(())
        .ok_or_else(|| NotRun::not_found(program, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for() {
        for (program, outcome) in [
            ("sh", Ok(())),
            ("/bin/sh", Ok(())),
            ("sabani-no-such-program", Err(127)),
            ("./sabani-no-such-program", Err(127)),
            ("/etc/passwd", Err(126)),
            ("/etc", Err(127)),
        ] {
            let found = find(OsStr::new(program)).map_err(|error| error.status);
            assert_eq!(found, outcome, "{program}");
        }
    }
}
