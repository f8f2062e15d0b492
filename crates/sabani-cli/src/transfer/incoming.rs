//! One file on its way in.

use std::io::{self, Read};
use std::os::fd::AsFd;

use super::path::RelativePath;
use super::protocol::{FileInfo, Hash, REPORT_EVERY, Reply};
use super::store::{self, Partial, Store};

/// A file that a sender has offered.
pub struct Incoming {
    info: FileInfo,
    path: RelativePath,
    place: Place,
    /// Over what is there. Its count is how much that is.
    hasher: blake3::Hasher,
    reported: u64,
}

enum Place {
    /// Under its final name already, so it seems.
    Final,
    Partial(Partial),
}

impl Incoming {
    /// Finds out how much of the file is there: this reads all of it, and says on the way how much of how many
    /// bytes it has read. Whoever hears that may end it.
    ///
    /// # Errors
    /// The system's, if something stands in the file's way, and what ends it.
    pub fn open(
        store: &Store,
        path: RelativePath,
        info: FileInfo,
        mut reached: impl FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut hash = |file: &mut dyn Read, bytes| {
            store::hash_prefix(file, bytes, |reach| reached(reach, bytes))
        };
        let (place, hasher) = match store.find(&path, &info) {
            Some(mut file) => (Place::Final, hash(&mut file, info.size)?),
            None => {
                store.expect_free(&path)?;
                let partial = store.partial(&info)?;
                let len = partial.len()?;
                let hasher = hash(&mut partial.reader(), len).inspect_err(|_| partial.keep(len))?;
                (Place::Partial(partial), hasher)
            }
        };
        Ok(Incoming {
            reported: hasher.count(),
            info,
            path,
            place,
            hasher,
        })
    }

    /// The file's path.
    pub fn path(&self) -> &RelativePath {
        &self.path
    }

    /// How much is there.
    pub fn start(&self) -> Reply {
        Reply::Start {
            have: self.hasher.count(),
            hash: store::digest(&self.hasher),
        }
    }

    /// Takes bytes; at offset 0 the file begins anew. Says from time to time how far it is.
    ///
    /// # Errors
    /// The system's, and if bytes come that were not due.
    pub fn write(&mut self, store: &Store, offset: u64, bytes: &[u8]) -> io::Result<Option<Reply>> {
        if offset == 0 && self.hasher.count() > 0 {
            self.restart(store)?;
        }
        let Place::Partial(partial) = &mut self.place else {
            return Err(io::Error::other("bytes for a file that is there"));
        };
        let end = offset.saturating_add(bytes.len() as u64);
        if offset != self.hasher.count() || end > self.info.size {
            return Err(io::Error::other(
                "bytes that are not the next ones of the file",
            ));
        }
        partial.append(bytes)?;
        self.hasher.update(bytes);
        if end - self.reported < REPORT_EVERY {
            return Ok(None);
        }
        self.reported = end;
        Ok(Some(Reply::Written { bytes: end }))
    }

    fn restart(&mut self, store: &Store) -> io::Result<()> {
        // First: whatever fails, what is there counts no more.
        self.hasher.reset();
        self.reported = 0;
        store.expect_free(&self.path)?;
        let mut partial = store.partial(&self.info)?;
        partial.restart()?;
        self.place = Place::Partial(partial);
        Ok(())
    }

    /// Ends without the rest; what has come is kept, if that is anything.
    pub fn abandon(self, store: &Store) {
        if let Place::Partial(partial) = self.place {
            match self.hasher.count() {
                0 => store.discard(&partial),
                bytes => partial.keep(bytes),
            }
        }
    }

    /// Checks the content, and gives the file its name.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self, store: &Store, hash: &Hash) -> io::Result<Reply> {
        let whole = self.hasher.count() == self.info.size;
        let right = whole && store::digest(&self.hasher) == *hash;
        match self.place {
            Place::Partial(partial) if right => {
                store.commit(&partial, &self.path, &self.info.meta)?;
                Ok(Reply::Done { already: false })
            }
            Place::Partial(partial) => {
                store.discard(&partial);
                Ok(Reply::Mismatch)
            }
            Place::Final if right => {
                set_mode(store, &self.path, &self.info)?;
                Ok(Reply::Done { already: true })
            }
            Place::Final => Ok(Reply::Mismatch),
        }
    }
}

/// Takes a whole small file, unless it is there.
///
/// # Errors
/// The system's, and if something stands in the file's way.
pub fn put(
    store: &Store,
    path: &RelativePath,
    info: &FileInfo,
    hash: &Hash,
    bytes: &[u8],
) -> io::Result<Reply> {
    if bytes.len() as u64 != info.size || blake3::hash(bytes).as_bytes() != hash {
        return Ok(Reply::Mismatch);
    }
    if let Some(file) = store.find(path, info) {
        let there = store::hash_prefix(file, info.size, |_| io::Result::Ok(()))?;
        if store::digest(&there) == *hash {
            set_mode(store, path, info)?;
            return Ok(Reply::Done { already: true });
        }
    }
    store.expect_free(path)?;
    let mut partial = store.partial(info)?;
    let written = partial
        .restart()
        .and_then(|()| partial.append(bytes))
        .and_then(|()| store.commit(&partial, path, &info.meta));
    if written.is_err() {
        // It comes as a whole next time, too.
        store.discard(&partial);
    }
    written.map(|()| Reply::Done { already: false })
}

fn set_mode(store: &Store, path: &RelativePath, info: &FileInfo) -> io::Result<()> {
    match store.find(path, info) {
        Some(file) => store::set_meta(file.as_fd(), &info.meta),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::super::path::PARTIAL;
    use super::super::protocol::Meta;
    use super::*;

    const SIZE: u64 = 64 << 20;
    const CHUNK: usize = 1 << 20;

    fn open(store: &Store) -> Incoming {
        let meta = Meta {
            mode: 0o644,
            seconds: 0,
            nanoseconds: 0,
        };
        let info = FileInfo {
            path: b"file".to_vec(),
            size: SIZE,
            meta,
        };
        let path = RelativePath::parse(&info.path).unwrap();
        Incoming::open(store, path, info, |_, _| Ok(())).unwrap()
    }

    /// Length and disk space of the partial file.
    fn left(folder: &Path) -> (u64, u64) {
        let mut left = fs::read_dir(folder.join(PARTIAL)).unwrap();
        let left = left.next().unwrap().unwrap().metadata().unwrap();
        (left.len(), left.blocks() * 512)
    }

    #[test]
    fn what_was_reserved_is_held_until_the_sender_is_gone_and_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let held = || left(folder.path()).1;
        let store = Store::open(folder.path()).unwrap();
        let mut file = open(&store);
        if held() < SIZE {
            // A file system without reservations.
            return file.abandon(&store);
        }
        let chunk = [1; CHUNK];
        // The second time it begins anew.
        for _ in 0..2 {
            file.write(&store, 0, &chunk).unwrap();
            assert!(held() >= SIZE, "{}", held());
        }
        file.abandon(&store);
        let kept = |(len, held): (u64, u64)| len == CHUNK as u64 && held < SIZE / 2;
        assert!(kept(left(folder.path())), "{:?}", left(folder.path()));
        // Whoever is killed gives nothing back.
        drop((open(&store), store));
        assert!(held() >= SIZE, "{}", held());
        Store::open(folder.path()).unwrap();
        assert!(kept(left(folder.path())), "{:?}", left(folder.path()));
    }
}
