//! Paths that stay below the folder they are relative to.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// The folder in which a receiver keeps what is not whole yet.
pub const PARTIAL: &str = ".sabani-partial";
/// Longest name of a file, and longest path, in bytes: Linux's limits.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4_096;

/// A path of one or more names, none of them `.`, `..` or empty. Its names are bytes, as on the disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(Vec<u8>);

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPath {
    /// It is empty, absolute, or has an empty name, a NUL, `.` or `..` in it.
    Outside,
    /// It, or a name in it, is longer than a file system takes.
    TooLong,
    /// It begins with [`PARTIAL`].
    Reserved,
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadPath::Outside => "the path may lead out of the receiver's folder",
            BadPath::TooLong => "the name is too long",
            BadPath::Reserved => "the receiver needs `.sabani-partial` for itself",
        })
    }
}

impl std::error::Error for BadPath {}

impl RelativePath {
    /// Checks a path.
    ///
    /// # Errors
    /// [`BadPath`].
    pub fn parse(bytes: &[u8]) -> Result<Self, BadPath> {
        if bytes.len() >= PATH_MAX {
            return Err(BadPath::TooLong);
        }
        let mut names = bytes.split(|&byte| byte == b'/');
        if names
            .clone()
            .any(|name| is_special(name) || name.contains(&0))
        {
            return Err(BadPath::Outside);
        }
        if names.clone().any(|name| name.len() > NAME_MAX) {
            return Err(BadPath::TooLong);
        }
        if names.next() == Some(PARTIAL.as_bytes()) {
            return Err(BadPath::Reserved);
        }
        Ok(RelativePath(bytes.to_vec()))
    }

    /// The path of something in this folder.
    ///
    /// # Errors
    /// [`BadPath`].
    pub fn join(&self, name: &OsStr) -> Result<Self, BadPath> {
        RelativePath::parse(&[&self.0, &b"/"[..], name.as_bytes()].concat())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names of the folders, and the last name.
    pub fn split(&self) -> (impl Iterator<Item = &OsStr>, &OsStr) {
        let (folders, name) = match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[][..], &self.0[..]),
        };
        let folders = folders.split(|&byte| byte == b'/');
        let folders = folders.filter(|name| !name.is_empty());
        (folders.map(OsStr::from_bytes), OsStr::from_bytes(name))
    }

    /// How many folders the path leads through.
    pub fn depth(&self) -> usize {
        self.split().0.count()
    }

    /// Whether a symbolic link at this path with this target stays inside.
    pub fn keeps_inside(&self, target: &[u8]) -> bool {
        Climb::of(target).is_ok_and(|climb| climb.ups <= self.depth())
    }
}

/// Why nobody can say that a symbolic link stays inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTarget {
    /// It does not begin at the link's own folder.
    Absolute,
    /// There is a `..` behind a name: if that is another link's, it may lead anywhere.
    Unclear,
}

/// A symbolic link's target, as far as that tells where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Climb<'a> {
    /// How many folders it goes up before it goes down.
    pub ups: usize,
    /// The first name on the way down.
    pub next: Option<&'a [u8]>,
}

impl<'a> Climb<'a> {
    /// Reads a target.
    ///
    /// # Errors
    /// [`BadTarget`].
    pub fn of(target: &'a [u8]) -> Result<Self, BadTarget> {
        if target.is_empty() || target[0] == b'/' || target.contains(&0) {
            return Err(BadTarget::Absolute);
        }
        let mut names = target.split(|&byte| byte == b'/');
        let ups = names.clone().take_while(|name| *name == b"..").count();
        let mut rest = names.by_ref().skip(ups);
        let next = rest.find(|name| !matches!(*name, b"" | b"."));
        match next == Some(b"..") || rest.any(|name| name == b"..") {
            true => Err(BadTarget::Unclear),
            false => Ok(Climb { ups, next }),
        }
    }
}

fn is_special(name: &[u8]) -> bool {
    matches!(name, b"" | b"." | b"..")
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(&self.0).fmt(f)
    }
}

/// A name, a path, or what somebody else says, for people. It may hold line breaks and worse: a terminal
/// must not act on them.
pub struct Shown<'a>(pub &'a [u8]);

impl Shown<'_> {
    /// Its beginning, if it is long.
    pub fn brief(&self) -> String {
        const CHARS: usize = 500;
        let text = self.to_string();
        match text.char_indices().nth(CHARS) {
            Some((end, _)) => format!("{} ...", &text[..end]),
            None => text,
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(self.0)
            .chars()
            .try_for_each(|c| match c.is_control() {
                true => write!(f, "{}", c.escape_default()),
                false => write!(f, "{c}"),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_out_are_refused() {
        for path in [
            "", "/", "/etc", "..", "a/..", "../a", "a/../b", "a//b", "a/", ".", "a/./b", "a\0b",
        ] {
            assert_eq!(
                RelativePath::parse(path.as_bytes()),
                Err(BadPath::Outside),
                "{path:?}"
            );
        }
        for path in ["a", "a/b", "..a", "a..", "...", "a/.b", "ä\n ö"] {
            assert!(RelativePath::parse(path.as_bytes()).is_ok(), "{path:?}");
        }
        assert_eq!(
            RelativePath::parse(b".sabani-partial/x"),
            Err(BadPath::Reserved)
        );
        assert_eq!(RelativePath::parse(&[b'a'; 256]), Err(BadPath::TooLong));
    }

    #[test]
    fn links_stay_inside() {
        let path = RelativePath::parse(b"a/b/link").unwrap();
        for target in ["x", "x/y", "../x", "../../x", "..", ".", "./x", "../../"] {
            assert!(path.keeps_inside(target.as_bytes()), "{target}");
        }
        for target in [
            "",
            "/x",
            "../../..",
            "../../../x",
            "x/..",
            "x/../../../y",
            "./../x",
            "x\0",
        ] {
            assert!(!path.keeps_inside(target.as_bytes()), "{target}");
        }
    }

    #[test]
    fn a_target_goes_up_and_then_down_by_names() {
        for (target, ups, next) in [
            ("..//x/y", 1, Some("x")),
            (".././x", 1, Some("x")),
            ("../..", 2, None),
            ("./", 0, None),
        ] {
            let next = next.map(str::as_bytes);
            assert_eq!(Climb::of(target.as_bytes()), Ok(Climb { ups, next }));
        }
    }

    #[test]
    fn a_path_splits_into_folders_and_a_name() {
        let path = RelativePath::parse(b"a/b/c").unwrap();
        let (folders, name) = path.split();
        assert_eq!(folders.collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(name, "c");
        assert_eq!(RelativePath::parse(b"x").unwrap().split().0.count(), 0);
    }

    #[test]
    fn control_characters_are_escaped_for_people() {
        let path = RelativePath::parse("a\n\u{1b}[2Jé".as_bytes()).unwrap();
        assert_eq!(path.to_string(), "a\\n\\u{1b}[2Jé");
        assert_eq!(Shown(path.as_bytes()).brief(), path.to_string());
        let long = "é".repeat(600);
        let brief = Shown(long.as_bytes()).brief();
        assert_eq!(brief, "é".repeat(500) + " ...");
    }
}
