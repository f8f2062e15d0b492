//! Finds what is to be sent.

use std::cmp::Ordering;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::path::{BadTarget, Climb, RelativePath};
use super::protocol::{FileInfo, Meta};
use crate::exit::Usage;

/// Something to send.
pub enum Entry {
    /// A file.
    File {
        /// Where it is.
        source: PathBuf,
        /// What it is to be called.
        path: RelativePath,
        /// Its length when it was found.
        size: u64,
    },
    /// A symbolic link.
    Link {
        /// What it is to be called.
        path: RelativePath,
        /// What it says.
        target: Vec<u8>,
        /// Its time.
        meta: Meta,
    },
}

/// A folder, to be sent after everything in it.
pub struct Folder {
    /// What it is to be called.
    pub path: RelativePath,
    /// Permissions and time.
    pub meta: Meta,
}

/// Hears of what is found.
pub trait Visitor {
    /// Something to send; `false` ends the walk.
    fn found(&mut self, entry: Entry) -> bool;
    /// Something that is left out on purpose.
    fn skipped(&mut self, path: &Path, why: &str);
    /// Something that can't be read.
    fn failed(&mut self, path: &Path, why: &io::Error);
}

/// A path of the command line, under the name that it will have.
pub struct Root {
    source: PathBuf,
    path: RelativePath,
}

impl Root {
    /// Looks at a path of the command line. A link there stands for what it points to.
    ///
    /// # Errors
    /// If nothing is there, it can't be read, has no name, or is neither a file nor a folder.
    pub fn new(path: &Path) -> Result<Self, Usage> {
        let shown = path.display();
        // In a folder such things are skipped; who names one wants what comes out of it.
        if let Some(special) = special(path) {
            return Err(Usage(format!(
                "{shown} is {special}, neither a file nor a folder: write what comes out of it to a file, and send that"
            )));
        }
        let source = fs::canonicalize(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Usage(format!(
                "{shown}: no such file or folder: is the path right?"
            )),
            ErrorKind::NotADirectory => Usage(format!(
                "{shown}: a name before the last one is a file's: is the path right?"
            )),
            _ => Usage(format!("{shown}: {}", unreadable(&error))),
        })?;
        let needed = match source.is_dir() {
            true => Access::READ_OK | Access::EXEC_OK,
            false => Access::READ_OK,
        };
        accessat(CWD, &source, needed, AtFlags::EACCESS)
            .map_err(|error| Usage(format!("{shown}: {}", unreadable(&error.into()))))?;
        let named = match path.file_name() {
            Some(name) => name,
            None => source.file_name().ok_or_else(|| {
                Usage(format!(
                    "{shown} has no name: send what is in it, such as {shown}*"
                ))
            })?,
        };
        let path = RelativePath::parse(named.as_encoded_bytes())
            .map_err(|bad| Usage(format!("{shown}: {bad}")))?;
        Ok(Root { source, path })
    }

    /// The name.
    pub fn path(&self) -> &RelativePath {
        &self.path
    }

    /// Reports everything below to the visitor, and returns the folders, outer ones first. All that is sent
    /// are these roots, this one among them.
    pub fn walk(&self, all: &[Root], visitor: &mut impl Visitor) -> Vec<Folder> {
        let mut walk = Walk {
            root: self,
            all,
            folders: Vec::new(),
            waiting: vec![(self.source.clone(), self.path.clone())],
        };
        while let Some((source, path)) = walk.waiting.pop() {
            match walk.visit(&source, path, visitor) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => visitor.failed(&source, &error),
            }
        }
        walk.folders
    }

    /// Whether this is what has that name beside another root, here and at the receiver.
    fn is_beside(&self, other: &Root, name: &[u8]) -> bool {
        self.path.as_bytes() == name
            && self.source.parent() == other.source.parent()
            && self
                .source
                .file_name()
                .is_some_and(|own| own.as_bytes() == name)
    }
}

/// On the way through what is below a root.
struct Walk<'a> {
    root: &'a Root,
    /// All roots.
    all: &'a [Root],
    folders: Vec<Folder>,
    waiting: Vec<(PathBuf, RelativePath)>,
}

impl Walk<'_> {
    fn visit(
        &mut self,
        source: &Path,
        path: RelativePath,
        visitor: &mut impl Visitor,
    ) -> io::Result<bool> {
        let found = fs::symlink_metadata(source)?;
        let kind = found.file_type();
        if kind.is_dir() {
            let meta = meta(&found);
            self.folders.push(Folder {
                path: path.clone(),
                meta,
            });
            for child in fs::read_dir(source)? {
                let name = child?.file_name();
                match path.join(&name) {
                    Ok(path) => self.waiting.push((source.join(name), path)),
                    Err(bad) => visitor.failed(&source.join(name), &io::Error::other(bad)),
                }
            }
            return Ok(true);
        }
        if kind.is_symlink() {
            let target = fs::read_link(source)?.into_os_string().into_vec();
            match self.expect_inside(&path, &target) {
                Ok(()) => {
                    let meta = meta(&found);
                    return Ok(visitor.found(Entry::Link { path, target, meta }));
                }
                Err(why) => visitor.skipped(source, why),
            }
        } else if kind.is_file() {
            let size = found.len();
            let source = source.to_owned();
            return Ok(visitor.found(Entry::File { source, path, size }));
        } else {
            visitor.skipped(source, "neither a file nor a folder nor a link");
        }
        Ok(true)
    }

    /// What a link leads to must come along, and be in the same place there; if not, the error says why.
    fn expect_inside(&self, path: &RelativePath, target: &[u8]) -> Result<(), &'static str> {
        const OUT: &str = "the link leads out of what is sent";
        let climb = Climb::of(target).map_err(|bad| match bad {
            BadTarget::Absolute => OUT,
            BadTarget::Unclear => "`..` after a name is not followed: that may be another link's",
        })?;
        let is_sent = match climb.ups.cmp(&path.depth()) {
            Ordering::Less => true,
            // Something beside the root, or the root.
            Ordering::Equal => climb.next.is_some_and(|name| {
                let mut roots = self.all.iter();
                roots.any(|root| root.is_beside(self.root, name))
            }),
            Ordering::Greater => false,
        };
        is_sent.then_some(()).ok_or(OUT)
    }
}

/// What something is called that is there, but neither a file nor a folder.
fn special(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    if kind.is_file() || kind.is_dir() {
        None
    } else if kind.is_fifo() {
        Some("a pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

/// Why something can't be read, and what helps.
pub fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => format!("{error}: `ls -ld` shows who may read it"),
        _ => error.to_string(),
    }
}

/// What an open file is at this moment.
pub fn describe(path: &[u8], found: &Metadata) -> FileInfo {
    FileInfo {
        path: path.to_vec(),
        size: found.len(),
        meta: meta(found),
    }
}

fn meta(found: &Metadata) -> Meta {
    Meta {
        mode: found.permissions().mode() & 0o777,
        seconds: found.mtime(),
        nanoseconds: found.mtime_nsec() as u32,
    }
}
