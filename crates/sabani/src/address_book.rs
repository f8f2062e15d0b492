//! The address book (row U1): which peer is where.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use crate::address::{canonical, problem};
use crate::{Error, PeerId};

/// Peers and their addresses. As a text file: one `id address:port` a line, addresses or host
/// names, IPv6 as `[::1]:7000`, link-local with the interface on the machine that reads it, as in
/// `[fe80::1%eth0]:7000`; `#` begins a comment; in UTF-8, with line ends of Unix or Windows.
///
/// All processes of a job may have the same one: each finds the others in it, and the address that
/// it binds to itself ([`Builder::bind`](crate::Builder::bind)). So every address is one that others
/// can send to. Names are looked up once, and the first address found counts: where a machine's own
/// name stands for a loopback address in its `/etc/hosts` (Debian: 127.0.1.1), write the address. IPv4 addresses may be
/// written as IPv6 ones (`[::ffff:192.0.2.1]:7000`).
///
/// ```
/// # fn main() -> Result<(), sabani::Error> {
/// let book = sabani::AddressBook::parse("# two peers\n0 127.0.0.1:7000\n1 [::1]:7001\n")?;
/// assert_eq!(book.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressBook(BTreeMap<PeerId, SocketAddr>);

impl AddressBook {
    /// An empty database.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file; names are looked up, which may take seconds where a name server does not answer.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::AddressBook`] that names the line: one that can't be read, a name
    /// without an address, an address at which no single process can be (port 0, `0.0.0.0`,
    /// `[::]`, broadcast, multicast), a peer that is listed twice, or two peers at one address.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let doing = format!("reading the address book {}", path.display());
        let bytes = std::fs::read(path)
            .map_err(with_cure)
            .map_err(Error::io(doing))?;
        // A comment may be in any encoding.
        Self::read(path, &String::from_utf8_lossy(&bytes))
    }

    /// Reads a text; names are looked up.
    ///
    /// # Errors
    /// [`Error::AddressBook`], as [`AddressBook::load`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::read(Path::new("address book"), text)
    }

    fn read(path: &Path, text: &str) -> Result<Self, Error> {
        let mut book = Self::new();
        let mut lines = HashMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let problem = |problem: String| Error::AddressBook {
                path: path.to_owned(),
                line: index + 1,
                problem,
            };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (id, addr) = parse_line(line).map_err(problem)?;
            if book.0.insert(id, addr).is_some() {
                return Err(problem(format!("peer {id} is listed twice")));
            }
            if let Some(first) = lines.insert(addr, index + 1) {
                return Err(problem(format!(
                    "the address of peer {id} is that of line {first} already: give each its own port"
                )));
            }
        }
        Ok(book)
    }

    /// Adds a peer, or corrects its address. [`Builder::open`](crate::Builder::open) says if nobody can
    /// be there.
    pub fn insert(&mut self, peer: PeerId, addr: SocketAddr) {
        self.0.insert(peer, canonical(addr));
    }

    /// Where a peer is.
    pub fn get(&self, peer: PeerId) -> Option<SocketAddr> {
        self.0.get(&peer).copied()
    }

    /// All peers, by id.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, SocketAddr)> + '_ {
        self.0.iter().map(|(&peer, &addr)| (peer, addr))
    }

    /// How many peers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn with_cure(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::NotFound => io::Error::new(
            ErrorKind::NotFound,
            "there is no such file: write one, with a line `id address:port` for each process",
        ),
        ErrorKind::PermissionDenied => io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{error}: `ls -ld` of it and of its folders shows who may read it"),
        ),
        _ => error,
    }
}

fn parse_line(line: &str) -> Result<(PeerId, SocketAddr), String> {
    if line.contains(['\0', char::REPLACEMENT_CHARACTER]) {
        return Err(
            "this is no text in UTF-8: save the file as such; of one in UTF-16, `iconv -f UTF-16 -t \
             UTF-8` makes one"
                .into(),
        );
    }
    let mut words = line.split_whitespace();
    let (Some(id), Some(addr), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!(
            "`{}` is not `id address:port`",
            line.trim().escape_debug()
        ));
    };
    let id = id.parse().map_err(|_| {
        format!(
            "`{id}` is not a peer id: expected a number from 0 to {}",
            u32::MAX
        )
    })?;
    let found = look_up(addr)?;
    match problem(found) {
        Some(problem) => Err(format!("no peer can be at `{addr}`: {problem}")),
        None => Ok((PeerId(id), found)),
    }
}

/// The first address of an `address:port` or `name:port`.
fn look_up(addr: &str) -> Result<SocketAddr, String> {
    let has_port = addr.rsplit_once(':').is_some_and(|(host, port)| {
        let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
        !host.is_empty() && !is_bare_ipv6 && port.parse::<u16>().is_ok()
    });
    if !has_port {
        return Err(format!(
            "`{addr}` is not an address:port, as in 192.0.2.1:7000, [2001:db8::1]:7000 or node-a:7000"
        ));
    }
    let unknown = |why: &str| {
        format!(
            "no address is found for `{addr}`{why}: is the name right, and does this machine know \
             it (`getent hosts` shows that, and `ip link` what comes after a %)?"
        )
    };
    let found = match scoped(addr) {
        Some(host_and_port) => host_and_port.to_socket_addrs(),
        None => addr.to_socket_addrs(),
    };
    let mut found = found.map_err(|error| unknown(&format!(", {error}")))?;
    found.next().map(canonical).ok_or_else(|| unknown(""))
}

/// Host and port of an IPv6 address with the name of an interface, which the system looks up as it does
/// names.
fn scoped(addr: &str) -> Option<(&str, u16)> {
    let (host, port) = addr.strip_prefix('[')?.rsplit_once("]:")?;
    host.contains('%').then_some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_names_and_ipv6_are_read() {
        let text = "# peers\n0 127.0.0.1:7000\n\n1 [::1]:7001 # six\n2 localhost:7002\n";
        let book = AddressBook::parse(text).unwrap();
        assert_eq!(book.len(), 3);
        assert_eq!(book.get(PeerId(1)), Some("[::1]:7001".parse().unwrap()));
        assert_eq!(book.get(PeerId(2)).unwrap().port(), 7002);
    }

    #[test]
    fn a_link_local_address_names_its_interface() {
        let index = std::fs::read_to_string("/sys/class/net/lo/ifindex").unwrap();
        let expected = format!("[fe80::1%{}]:7000", index.trim());
        for text in ["0 [fe80::1%lo]:7000", &format!("0 {expected}")] {
            let book = AddressBook::parse(text).unwrap();
            assert_eq!(book.get(PeerId(0)), expected.parse().ok(), "{text}");
        }
        let error = AddressBook::parse("0 [fe80::1%nowhere]:7000").unwrap_err();
        assert!(error.to_string().contains("`ip link`"), "{error}");
    }

    #[test]
    fn mapped_addresses_are_ipv4() {
        let addr = "[::ffff:192.0.2.1]:7000";
        let mut book = AddressBook::parse(&format!("0 {addr}")).unwrap();
        book.insert(PeerId(1), addr.parse().unwrap());
        let ipv4 = "192.0.2.1:7000".parse().ok();
        assert_eq!((book.get(PeerId(0)), book.get(PeerId(1))), (ipv4, ipv4));
    }

    #[test]
    fn a_missing_file_comes_with_what_to_write() {
        let error = AddressBook::load("/nowhere/hosts.txt").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("/nowhere/hosts.txt: there is no such file: write one"),
            "{text}"
        );
    }

    #[test]
    fn files_of_windows_editors_are_read_and_others_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.txt");
        let read = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            AddressBook::load(&path).map_err(|error| error.to_string())
        };
        let utf16 = |text: &str| -> Vec<u8> {
            let marked = format!("\u{feff}{text}");
            marked.encode_utf16().flat_map(u16::to_le_bytes).collect()
        };
        let windows = b"\xef\xbb\xbf0 127.0.0.1:7000\r\n# caf\xe9\r\n1 127.0.0.1:7001\r\n";
        assert_eq!(read(windows).unwrap().len(), 2);
        for (bytes, line) in [
            (utf16("# peers\r\n0 127.0.0.1:7000\r\n"), 1),
            (b"0 127.0.0.1:7000\n1 127.0.0.1:7001\0".into(), 2),
            (b"\x7fELF\x02\x01\x01\0\0".into(), 1),
            (b"0 h\xf6st:7000".into(), 1),
        ] {
            let error = read(&bytes).unwrap_err();
            let place = format!("hosts.txt:{line}: this is no text in UTF-8: save");
            assert!(error.contains(&place), "{error}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, words) in [
            ("0 127.0.0.1:1\nx 127.0.0.1:2", ":2: `x` is not a peer id"),
            ("0 127.0.0.1", ":1: `127.0.0.1` is not an address:port"),
            ("0 a:70000", ":1: `a:70000` is not an address:port"),
            ("0 :7000", ":1: `:7000` is not an address:port"),
            ("0 ::1", ":1: `::1` is not an address:port"),
            (
                "0 127.0.0.1:1 2",
                ":1: `0 127.0.0.1:1 2` is not `id address:port`",
            ),
            (
                "0 127.0.0.1:0",
                ":1: no peer can be at `127.0.0.1:0`: port 0",
            ),
            (
                "0 127.0.0.1:1\n1 0.0.0.0:2",
                ":2: no peer can be at `0.0.0.0:2`",
            ),
            ("0 [ff02::1]:1", ":1: no peer can be at `[ff02::1]:1`"),
            ("0 a..b:1", ":1: no address is found for `a..b:1`"),
            ("0 127.0.0.1:1\n0 127.0.0.1:2", ":2: peer 0 is listed twice"),
            (
                "0 127.0.0.1:1\n# two\n1 127.0.0.1:1",
                ":3: the address of peer 1 is that of line 1 already",
            ),
        ] {
            let error = AddressBook::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
