//! The receiver's folder: nothing in it is reached through a symbolic link, and a file has its final
//! name only when it is whole.
//!
//! Every path is walked from the folder's descriptor, name by name, refusing links. Content grows
//! under `.sabani-partial/`, in a file named after the hash of path, size and modification
//! time, so that the next attempt finds it; then it is synced to the disk and renamed.

use std::ffi::{CStr, OsStr};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use rustix::fs::{
    Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat, Timespec,
    Timestamps, UTIME_OMIT,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::{Resource, getrlimit};

use super::path::{PARTIAL, RelativePath, Shown};
use super::protocol::{FileInfo, Hash, Meta};
use crate::exit::Usage;

/// What nobody has gone on with for this long is removed when a receiver starts.
const STALE: Duration = Duration::from_secs(7 * 24 * 3600);
/// It is said how far a check is after this many bytes.
const CHECK_STEP: u64 = 16 << 20;
/// File systems keep modification times in steps of up to this (FAT).
const TIME_STEP: Duration = Duration::from_secs(2);
/// What a file's blocks are counted in, whatever the file system's own are (`stat(2)`).
const BLOCK: u64 = 512;
/// A file that has less than this beside its content has reserved nothing worth giving back: file systems need some for
/// themselves.
const RESERVED_MIN: u64 = 1 << 20;
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// Why a file or a link can't have its name; renaming would say just that it is a directory.
const FOLDER_IN_THE_WAY: &str = "a folder stands where the file should be: move it away";

/// The folder, held open.
#[derive(Debug)]
pub struct Store {
    root: OwnedFd,
    partial: OwnedFd,
    /// Links made so far.
    links: AtomicU64,
}

/// A file that is not whole yet.
#[derive(Debug)]
pub struct Partial {
    file: File,
    name: String,
    /// Of the whole file.
    size: u64,
}

impl Store {
    /// Opens the folder, and makes it if need be. Only one process may have it.
    ///
    /// # Errors
    /// [`Usage`], if it can't be opened or another receiver has it.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::try_open(folder).map_err(|error| Usage::of(error).into())
    }

    fn try_open(folder: &Path) -> Result<Self> {
        let shown = folder.display();
        fs::create_dir_all(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists | ErrorKind::NotADirectory => {
                let obstacle = obstacle(folder).display();
                anyhow!(
                    "{obstacle} is no folder: move it away, or name another folder to receive into"
                )
            }
            _ => anyhow!("making the folder {shown}: {}", explained(&error)),
        })?;
        let root = rustix::fs::open(folder, FOLDER - OFlags::NOFOLLOW, Mode::empty())
            .map_err(|error| anyhow!("opening the folder {shown}: {}", explained(&error.into())))?;
        let partial = lock_partial(root.as_fd(), &shown)?;
        let store = Store {
            root,
            partial,
            links: AtomicU64::new(0),
        };
        store.remove(is_old).context("removing old partial files")?;
        store.give_back().context("looking at partial files")?;
        Ok(store)
    }

    /// Gives back the disk space that a receiver which was killed had taken for what never came.
    fn give_back(&self) -> io::Result<()> {
        self.each_left(|name, stat| {
            let len = stat.st_size.unsigned_abs();
            // Whoever is cut, though to its own length, counts as written to, and would never be old.
            if held(stat) > len.saturating_add(RESERVED_MIN)
                && let Ok(file) = self.open_partial(name, OFlags::empty())
            {
                // What stays taken is in nobody's way who has room.
                let _ = file.set_len(len);
            }
            Ok(())
        })
    }

    /// Removes from `.sabani-partial` what holds nothing, and that itself if it is empty then: for a
    /// receiver that ends.
    ///
    /// # Errors
    /// The system's.
    pub fn tidy(&self) -> io::Result<()> {
        self.remove(|file| file.st_size == 0)?;
        match rustix::fs::unlinkat(&self.root, PARTIAL, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Removes those of the partial files, and links that never got their name.
    fn remove(&self, which: impl Fn(&Stat) -> bool) -> io::Result<()> {
        self.each_left(|name, stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            let goes = kind.is_symlink() || kind.is_file() && which(stat);
            if !goes {
                return Ok(());
            }
            match rustix::fs::unlinkat(&self.partial, name, AtFlags::empty()) {
                Err(Errno::NOENT) => Ok(()),
                removed => removed,
            }
        })
    }

    /// Goes through `.sabani-partial`.
    fn each_left(&self, what: impl Fn(&CStr, &Stat) -> Result<(), Errno>) -> io::Result<()> {
        for entry in rustix::fs::Dir::read_from(&self.partial)? {
            let entry = entry?;
            let name = entry.file_name();
            match rustix::fs::statat(&self.partial, name, AtFlags::SYMLINK_NOFOLLOW) {
                // It has its name by now.
                Err(Errno::NOENT) => {}
                stat => what(name, &stat?)?,
            }
        }
        Ok(())
    }

    /// The file under its final name, if it has the size of `info`, and its modification time as far as file
    /// systems keep that: its content is to be compared.
    pub fn find(&self, path: &RelativePath, info: &FileInfo) -> Option<File> {
        let (folders, name) = path.split();
        let folder = walk(self.root.as_fd(), folders, open_folder).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?);
        let found = file.metadata().ok()?;
        let time = nanoseconds(found.mtime(), found.mtime_nsec());
        let wanted = nanoseconds(info.meta.seconds, info.meta.nanoseconds.into());
        let same = found.is_file()
            && found.len() == info.size
            && time.abs_diff(wanted) <= TIME_STEP.as_nanos();
        same.then_some(file)
    }

    /// Finds out, before the content is moved, whether a file can have its final name.
    ///
    /// # Errors
    /// If something stands in the way, or the folder takes no new names.
    pub fn expect_free(&self, path: &RelativePath) -> io::Result<()> {
        let (folders, name) = path.split();
        let folder = match walk(self.root.as_fd(), folders, open_folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let may = Access::WRITE_OK | Access::EXEC_OK;
        rustix::fs::accessat(&folder, ".", may, AtFlags::EACCESS)?;
        if rustix::fs::fstat(&folder)?.st_dev != rustix::fs::fstat(&self.partial)?.st_dev {
            return Err(Errno::XDEV.into());
        }
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode).is_dir() => {
                Err(io::Error::other(FOLDER_IN_THE_WAY))
            }
            _ => Ok(()),
        }
    }

    /// What has been received of a file so far, perhaps nothing. Disk space is taken for all of it, where the
    /// file system has reservations.
    ///
    /// # Errors
    /// The system's.
    pub fn partial(&self, info: &FileInfo) -> io::Result<Partial> {
        let name = partial_name(info);
        let file = self.open_partial(&*name, OFlags::CREATE)?;
        if file.metadata()?.len() > info.size {
            file.set_len(0)?;
        }
        if let Err(error) = reserve(&file, info.size) {
            if file.metadata()?.len() == 0 {
                self.forget(&name);
            }
            return Err(error.into());
        }
        let size = info.size;
        Ok(Partial { file, name, size })
    }

    /// Opens one of the partial files.
    fn open_partial(&self, name: impl Arg + Copy, more: OFlags) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
        let mode = Mode::RUSR | Mode::WUSR;
        let open = || rustix::fs::openat(&self.partial, name, flags, mode);
        let file = match open() {
            // It may have its last mode, and a receiver that ended before it had its name.
            Err(Errno::ACCESS) => rustix::fs::chmodat(&self.partial, name, mode, AtFlags::empty())
                .map_err(|_| Errno::ACCESS)
                .and_then(|()| open()),
            opened => opened,
        };
        Ok(File::from(file?))
    }

    /// Gives a whole file its mode, time and final name, in this order and after it is on the disk.
    ///
    /// # Errors
    /// The system's. The content is kept.
    pub fn commit(&self, partial: &Partial, path: &RelativePath, meta: &Meta) -> io::Result<()> {
        let (folders, name) = path.split();
        let folder = walk(self.root.as_fd(), folders, open_or_make)?;
        set_meta(partial.file.as_fd(), meta)?;
        partial.file.sync_all()?;
        self.give_name(&partial.name, folder.as_fd(), name)
    }

    /// Moves something out of `.sabani-partial`, in place of what has its name.
    fn give_name(&self, partial: &str, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        rustix::fs::renameat(&self.partial, partial, folder, name).map_err(|error| match error {
            Errno::ISDIR => io::Error::other(FOLDER_IN_THE_WAY),
            error => error.into(),
        })
    }

    /// Throws away what was received of a file.
    pub fn discard(&self, partial: &Partial) {
        self.forget(&partial.name);
    }

    fn forget(&self, name: &str) {
        // If it stays, its hash will not match and it is written over.
        let _ = rustix::fs::unlinkat(&self.partial, name, AtFlags::empty());
    }

    /// Makes a symbolic link with this time, in place of what has its name, unless that is the same.
    ///
    /// # Errors
    /// The system's.
    pub fn link(&self, path: &RelativePath, target: &[u8], meta: &Meta) -> io::Result<()> {
        let (folders, name) = path.split();
        let folder = walk(self.root.as_fd(), folders, open_or_make)?;
        let itself = AtFlags::SYMLINK_NOFOLLOW;
        let there = rustix::fs::readlinkat(&folder, name, Vec::new());
        if there.is_ok_and(|there| there.as_bytes() == target)
            && rustix::fs::utimensat(&folder, name, &modified(meta), itself).is_ok()
        {
            return Ok(());
        }
        // Several senders may have the same tree, and each link its own name until it has its last.
        let temporary = format!("link-{}", self.links.fetch_add(1, Ordering::Relaxed));
        rustix::fs::symlinkat(target, &self.partial, &temporary)?;
        let made = rustix::fs::utimensat(&self.partial, &temporary, &modified(meta), itself)
            .map_err(io::Error::from)
            .and_then(|()| self.give_name(&temporary, folder.as_fd(), name));
        if made.is_err() {
            self.forget(&temporary);
        }
        made
    }

    /// Makes a folder, if it is not there, and sets its mode and time.
    ///
    /// # Errors
    /// The system's.
    pub fn folder(&self, path: &RelativePath, meta: &Meta) -> io::Result<()> {
        let (folders, name) = path.split();
        let folder = walk(self.root.as_fd(), folders.chain([name]), open_or_make)?;
        set_meta(folder.as_fd(), meta)
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }
}

/// Takes disk space for all of a file, where the file system has reservations; others find out later. More than there is isn't even
/// asked for: before it refuses, the system may take all that is free, and others on that disk find it full meanwhile.
fn reserve(file: &File, size: u64) -> Result<(), Errno> {
    let take = |bytes| match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
        Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(false),
        taken => taken.map(|()| true),
    };
    // The system takes no notice of this limit before the content comes.
    if getrlimit(Resource::Fsize)
        .current
        .is_some_and(|most| size > most)
    {
        return Err(Errno::FBIG);
    }
    if size == 0 || !take(1)? {
        return Ok(());
    }
    if missing(file, size)? > free(file) {
        return Err(Errno::NOSPC);
    }
    take(size).map(|_| ())
}

/// How many bytes of a file have no place on the disk yet; a file system that compresses has fewer blocks than bytes.
fn missing(file: &File, size: u64) -> Result<u64, Errno> {
    let stat = rustix::fs::fstat(file)?;
    Ok(size.saturating_sub(held(&stat).max(stat.st_size.unsigned_abs())))
}

/// How many bytes of the disk a file has.
fn held(stat: &Stat) -> u64 {
    stat.st_blocks.unsigned_abs().saturating_mul(BLOCK)
}

/// How many bytes this process may still take on a file's disk, if that is known.
fn free(file: &File) -> u64 {
    match rustix::fs::fstatvfs(file) {
        // A file system that doesn't know its size has no blocks at all.
        Ok(disk) if disk.f_blocks > 0 => {
            let is_root = rustix::process::geteuid().is_root();
            let blocks = if is_root { disk.f_bfree } else { disk.f_bavail };
            blocks.saturating_mul(disk.f_frsize)
        }
        _ => u64::MAX,
    }
}

impl Partial {
    /// Bytes that are there.
    ///
    /// # Errors
    /// The system's.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The file, to read from its beginning; what is read is not overwritten by [`Partial::append`]
    /// as long as it was read to the end.
    pub fn reader(&self) -> impl Read + '_ {
        &self.file
    }

    /// Empties it.
    ///
    /// # Errors
    /// The system's.
    pub fn restart(&mut self) -> io::Result<()> {
        if self.len()? > 0 {
            self.file.set_len(0)?;
            // That gave back what had been taken for the rest, too.
            reserve(&self.file, self.size)?;
        }
        io::Seek::rewind(&mut self.file)
    }

    /// Keeps so many bytes until somebody goes on, and gives back the disk space that was taken for the rest.
    pub fn keep(&self, bytes: u64) {
        // If not, the next receiver in this folder does.
        let _ = self.file.set_len(bytes);
    }

    /// Adds bytes at the end.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }
}

/// Sets permission bits and modification time.
///
/// # Errors
/// The system's.
pub fn set_meta(file: BorrowedFd<'_>, meta: &Meta) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(meta.mode & 0o777))?;
    Ok(rustix::fs::futimens(file, &modified(meta))?)
}

fn nanoseconds(seconds: i64, rest: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(rest)
}

/// The modification time, and none of access.
fn modified(meta: &Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: meta.seconds,
            tv_nsec: meta.nanoseconds.min(999_999_999).into(),
        },
    }
}

/// What stands where the folder, or one that it is in, should be.
fn obstacle(folder: &Path) -> &Path {
    let mut above = folder.ancestors();
    let stands = |path: &&Path| fs::symlink_metadata(path).is_ok() && !path.is_dir();
    above.find(stands).unwrap_or(folder)
}

/// Opens `.sabani-partial`, and makes it if need be, for this process alone.
fn lock_partial(root: BorrowedFd<'_>, shown: &impl Display) -> Result<OwnedFd> {
    loop {
        let partial = open_or_make(root, OsStr::new(PARTIAL))
            .map_err(|error| no_folder(error, Path::new(PARTIAL)))
            .map_err(|error| anyhow!("making {shown}/{PARTIAL}: {}", explained(&error)))?;
        match rustix::fs::flock(&partial, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => bail!(
                "another `sabani receive` works in {shown}: end that one, or name another folder"
            ),
            locked => locked.with_context(|| format!("locking {shown}"))?,
        }
        // The one before may have removed it when it ended.
        if rustix::fs::fstat(&partial)?.st_nlink > 0 {
            return Ok(partial);
        }
    }
}

/// An error of the folder, and what helps.
pub fn explained(error: &io::Error) -> String {
    let cure = match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => "make room on the receiver's disk",
        Some(Errno::NOENT) => {
            "nothing can be made there: if its folder was removed meanwhile, start it again"
        }
        Some(Errno::ACCESS | Errno::PERM) => "its user may not write there: `ls -ld` shows who may",
        Some(Errno::FBIG) => {
            "raise its limit of a file's size (`ulimit -f`), or name a folder on a file system that takes larger ones"
        }
        Some(Errno::ROFS) => "name a folder on a file system that can be written",
        Some(Errno::XDEV) => {
            "another file system is mounted there: receive into that folder itself"
        }
        Some(Errno::MFILE) => {
            "it has too many files open: raise its limit (`ulimit -n`), or send with fewer `--jobs`"
        }
        Some(Errno::NFILE) => "too many files are open on that machine: raise `fs.file-max`",
        _ => return error.to_string(),
    };
    format!("{error}: {cure}")
}

fn is_old(file: &Stat) -> bool {
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(file.st_ctime as u64);
    written.elapsed().is_ok_and(|age| age > STALE)
}

fn partial_name(info: &FileInfo) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&info.size.to_le_bytes());
    hasher.update(&info.meta.seconds.to_le_bytes());
    hasher.update(&info.meta.nanoseconds.to_le_bytes());
    hasher.update(&info.path);
    hasher.finalize().to_hex().to_string()
}

/// Follows the names from a folder.
fn walk<'a>(
    root: BorrowedFd<'_>,
    names: impl Iterator<Item = &'a OsStr>,
    step: fn(BorrowedFd<'_>, &OsStr) -> Result<OwnedFd, Errno>,
) -> io::Result<OwnedFd> {
    let mut folder = root.try_clone_to_owned()?;
    let mut path = PathBuf::new();
    for name in names {
        path.push(name);
        folder = step(folder.as_fd(), name).map_err(|error| no_folder(error, &path))?;
    }
    Ok(folder)
}

fn open_folder(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, FOLDER, Mode::empty())
}

fn open_or_make(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match open_folder(parent, name) {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => open_folder(parent, name),
            Err(error) => Err(error),
        },
        opened => opened,
    }
}

/// Why the folder of this path, in the receiver's folder, can't be opened.
fn no_folder(error: Errno, path: &Path) -> io::Error {
    match error {
        Errno::NOTDIR | Errno::LOOP => io::Error::other(format!(
            "a file or a symbolic link stands where the folder {} should be: move it away",
            Shown(path.as_os_str().as_bytes()).brief()
        )),
        error => error.into(),
    }
}

/// Hashes the first `bytes` of what is read, and says on the way how far it is: whoever hears that may end it.
///
/// # Errors
/// The reader's, also if it ends too early, and what ends it.
pub fn hash_prefix<E: From<io::Error>>(
    mut reader: impl Read,
    bytes: u64,
    mut reached: impl FnMut(u64) -> Result<(), E>,
) -> Result<blake3::Hasher, E> {
    let mut hasher = blake3::Hasher::new();
    loop {
        let end = bytes.min(hasher.count() + CHECK_STEP);
        hasher.update_reader(reader.by_ref().take(end - hasher.count()))?;
        if hasher.count() < end {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        if end == bytes {
            return Ok(hasher);
        }
        reached(end)?;
    }
}

/// The hash so far.
pub fn digest(hasher: &blake3::Hasher) -> Hash {
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::*;

    fn info(path: &str, size: u64) -> (RelativePath, FileInfo) {
        let meta = Meta {
            mode: 0o640,
            seconds: 1_000_000,
            nanoseconds: 5,
        };
        let info = FileInfo {
            path: path.into(),
            size,
            meta,
        };
        (RelativePath::parse(path.as_bytes()).unwrap(), info)
    }

    #[test]
    fn a_file_appears_whole_with_mode_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, info) = info("a/b", 5);
        let mut partial = store.partial(&info).unwrap();
        partial.append(b"abc").unwrap();
        drop(partial);
        assert!(!folder.path().join("a").exists());
        let mut partial = store.partial(&info).unwrap();
        assert_eq!(partial.len().unwrap(), 3);
        hash_prefix(partial.reader(), 3, |_| io::Result::Ok(())).unwrap();
        partial.append(b"de").unwrap();
        store.commit(&partial, &path, &info.meta).unwrap();
        let found = folder.path().join("a/b");
        assert_eq!(fs::read(&found).unwrap(), b"abcde");
        assert_eq!(
            fs::metadata(&found).unwrap().permissions().mode() & 0o777,
            0o640
        );
        assert!(store.find(&path, &info).is_some());
    }

    #[test]
    fn a_file_is_found_though_its_time_was_rounded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, mut info) = info("a", 1);
        fs::write(folder.path().join("a"), "x").unwrap();
        let file = File::open(folder.path().join("a")).unwrap();
        let even = Duration::from_secs(info.meta.seconds as u64);
        file.set_modified(SystemTime::UNIX_EPOCH + even).unwrap();
        for (seconds, nanoseconds, is_found) in [
            (1_000_000, 0, true),
            (1_000_001, 999_999_999, true),
            (1_000_002, 0, true),
            (999_998, 0, true),
            (1_000_002, 1, false),
            (999_997, 999_999_999, false),
            (i64::MIN, u32::MAX, false),
        ] {
            (info.meta.seconds, info.meta.nanoseconds) = (seconds, nanoseconds);
            let found = store.find(&path, &info).is_some();
            assert_eq!(found, is_found, "{seconds}, {nanoseconds}");
        }
    }

    #[test]
    fn a_long_check_says_how_far_it_is() {
        let bytes = 2 * CHECK_STEP + 1;
        let mut steps = Vec::new();
        let reached = |step| {
            steps.push(step);
            io::Result::Ok(())
        };
        let hasher = hash_prefix(io::repeat(1), bytes, reached).unwrap();
        assert_eq!(steps, [CHECK_STEP, 2 * CHECK_STEP]);
        assert_eq!(
            digest(&hasher),
            *blake3::hash(&vec![1; bytes as usize]).as_bytes()
        );
        assert!(hash_prefix(io::empty(), 1, |_| io::Result::Ok(())).is_err());
        let ended = hash_prefix(io::repeat(1), u64::MAX, |step| {
            Err(io::Error::other(step.to_string()))
        });
        assert_eq!(ended.unwrap_err().to_string(), CHECK_STEP.to_string());
    }

    #[test]
    fn links_in_the_way_are_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        symlink(outside.path(), folder.path().join("a")).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, info) = info("a/b", 0);
        let partial = store.partial(&info).unwrap();
        let error = store.commit(&partial, &path, &info.meta).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(store.folder(&path, &info.meta).is_err());
        assert!(store.link(&path, b"x", &info.meta).is_err());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    /// Its folder may be one that nobody may write to by then.
    #[test]
    fn a_link_that_is_there_is_left_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, info) = info("a/b", 0);
        let inode = |target: &[u8]| {
            store.link(&path, target, &info.meta).unwrap();
            fs::symlink_metadata(folder.path().join("a/b"))
                .unwrap()
                .ino()
        };
        let first = inode(b"x");
        assert_eq!(inode(b"x"), first);
        assert_ne!(inode(b"y"), first);
        assert_eq!(
            fs::read_link(folder.path().join("a/b")).unwrap(),
            Path::new("y")
        );
    }

    #[test]
    fn a_link_under_the_final_name_is_replaced() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, "old").unwrap();
        symlink(&victim, folder.path().join("a")).unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, info) = info("a", 3);
        let mut partial = store.partial(&info).unwrap();
        partial.append(b"new").unwrap();
        store.commit(&partial, &path, &info.meta).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"old");
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"new");
    }

    #[test]
    fn what_holds_nothing_is_not_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let left = || fs::read_dir(folder.path().join(PARTIAL)).map(Iterator::count);
        let store = Store::open(folder.path()).unwrap();
        store.partial(&info("begun", 5).1).unwrap();
        store
            .partial(&info("more", 5).1)
            .unwrap()
            .append(b"abc")
            .unwrap();
        store.tidy().unwrap();
        assert_eq!(left().unwrap(), 1);
        drop(store);
        // What holds something is still there for the next one.
        let store = Store::open(folder.path()).unwrap();
        let partial = store.partial(&info("more", 5).1).unwrap();
        assert_eq!(partial.len().unwrap(), 3);
        store.discard(&partial);
        store.tidy().unwrap();
        assert!(left().is_err());
        // Nobody else may work in what has been removed.
        drop((store, partial));
        let store = Store::open(folder.path()).unwrap();
        store.partial(&info("other", 5).1).unwrap();
        assert_eq!(left().unwrap(), 1);
    }

    #[test]
    fn senders_of_one_link_do_not_meet() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (path, info) = info("link", 0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        store.link(&path, b"target", &info.meta).unwrap();
                    }
                });
            }
        });
        // One that was begun by a receiver that was killed is in nobody's way.
        symlink("x", folder.path().join(PARTIAL).join("link-0")).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        store.link(&path, b"other", &info.meta).unwrap();
        let found = fs::read_link(folder.path().join("link")).unwrap();
        assert_eq!(found, Path::new("other"));
    }

    #[test]
    fn errors_of_the_folder_have_a_cure() {
        for (errno, cure) in [
            (Errno::NOSPC, ": make room on the receiver's disk"),
            (
                Errno::NOENT,
                ": nothing can be made there: if its folder was removed",
            ),
            (Errno::ACCESS, ": its user may not write there"),
            (Errno::FBIG, "limit of a file's size (`ulimit -f`)"),
            (Errno::ROFS, ": name a folder on a file system"),
            (Errno::XDEV, ": another file system is mounted there"),
            (Errno::MFILE, "raise its limit (`ulimit -n`)"),
            (Errno::IO, "Input/output error (os error 5)"),
        ] {
            let said = explained(&errno.into());
            assert!(said.contains(cure), "{said}");
        }
        // Nobody, not even root, makes folders there; in a container it may be mounted read-only.
        let said = Store::open(Path::new("/sys/sabani")).unwrap_err();
        let cures = [Errno::PERM, Errno::ROFS].map(|errno| explained(&errno.into()));
        let said = said.to_string();
        assert!(cures.iter().any(|cure| said.ends_with(cure)), "{said}");
    }

    #[test]
    fn a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = Store::open(&path).unwrap_err();
            assert!(error.is::<Usage>(), "{error}");
            // That is what stands in the way of both.
            let said = format!("{} is no folder: move it away", file.display());
            assert!(error.to_string().starts_with(&said), "{error}");
        }
    }

    #[test]
    fn two_receivers_in_one_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Store::open(folder.path()).unwrap();
        assert!(Store::open(folder.path()).is_err());
    }
}
