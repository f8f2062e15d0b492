//! Folders full of files, and whether two are the same.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A copy of this repository's own sources.
pub fn of_sources(target: &Path) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    copy(crates, target);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy(&from, &to),
            false => {
                fs::copy(from, to).unwrap();
            }
        }
    }
}

/// What is seldom in a source tree.
pub fn of_oddities(target: &Path) {
    fs::create_dir_all(target.join("empty/deeper")).unwrap();
    for name in [
        "plain",
        "with space",
        "line\nbreak",
        "ümläut ✓",
        "-rf",
        "...",
        "tab\t",
    ] {
        fs::write(target.join(name), name).unwrap();
    }
    fs::write(target.join("nothing"), "").unwrap();
    fs::write(target.join("n".repeat(255)), "long name").unwrap();
    random_file(&target.join("larger"), 3_000_001);
    for (name, mode) in [
        ("plain", 0o755),
        ("with space", 0o600),
        ("nothing", 0o444),
        ("larger", 0o400),
    ] {
        set_mode(&target.join(name), mode);
    }
    fs::create_dir(target.join("read only")).unwrap();
    fs::write(target.join("read only/file"), "file").unwrap();
    set_mode(&target.join("read only"), 0o555);
    set_mode(&target.join("empty"), 0o700);
    symlink("plain", target.join("link")).unwrap();
    symlink("../plain", target.join("empty/link")).unwrap();
    symlink("no such file", target.join("dangling")).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A file that does not compress and does not repeat.
pub fn random_file(path: &Path, bytes: u64) {
    let mut stream = blake3::Hasher::new()
        .update(path.as_os_str().as_encoded_bytes())
        .finalize_xof();
    let mut file = fs::File::create(path).unwrap();
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(block.len() as u64) as usize;
        stream.fill(&mut block[..len]);
        file.write_all(&block[..len]).unwrap();
        left -= len as u64;
    }
}

/// Names, kinds, modes, times and contents must be equal.
pub fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (listing(one), listing(other));
    let names = |listing: &BTreeMap<PathBuf, Thing>| listing.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (path, thing) in &one {
        assert!(thing == &other[path], "{} differs", path.display());
    }
}

#[derive(PartialEq)]
enum Thing {
    Folder(u32, i64),
    Link(PathBuf, i64),
    File(u32, i64, blake3::Hash),
}

fn listing(root: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let stat = fs::symlink_metadata(&path).unwrap();
        let time = stat.mtime() * 1_000_000_000 + stat.mtime_nsec();
        let thing = if stat.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            Thing::Folder(stat.mode(), time)
        } else if stat.is_symlink() {
            Thing::Link(fs::read_link(&path).unwrap(), time)
        } else {
            Thing::File(stat.mode(), time, hash(&path))
        };
        found.insert(path.strip_prefix(root).unwrap().to_owned(), thing);
    }
    found
}

fn hash(path: &Path) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path).unwrap()).unwrap();
    hasher.finalize()
}
